"""The statements that Delta Lake ran on the shared tables, run here: the log must say the same."""

import json
import re
import shutil

import pyarrow as pa
import pytest

from airflow_delta.core.actions import removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import AppendOnlyTableError, ConstraintViolatedError, UnsupportedWriterFeatureError
from airflow_delta.core.schema import parse_schema, without_column_mapping
from airflow_delta.core.schema.data_types import DOUBLE, INTEGER, LONG, SHORT, STRING, TIMESTAMP_NTZ, DecimalType
from airflow_delta.core.table_changes import NewColumn, NewTable, after
from airflow_delta.core.table_changes.properties import INTERNAL
from airflow_delta.core.table_features.protocol import needed_features
from airflow_delta.core.transaction.operation import Operation
from tests.golden_tables import TABLES

ALTERED = {
    ("check_constraints", 1): lambda alter: alter.add_constraint("pos", "v > 0"),
    ("check_constraints", 2): lambda alter: alter.add_constraint("small", "id < 1000 AND ( v IS NULL OR v < 500 )"),
    ("check_constraints", 4): lambda alter: alter.drop_constraint("small"),
    ("clustered", 5): lambda alter: alter.cluster_by("s"),
    ("clustered", 8): lambda alter: alter.cluster_by(),
    ("column_mapping_name", 2): lambda alter: alter.rename_column("name", "full_name"),
    ("column_mapping_name", 3): lambda alter: alter.rename_column("st.x", "xx"),
    ("column_mapping_name", 4): lambda alter: alter.rename_column("part", "partition_col"),
    ("column_mapping_name", 5): lambda alter: alter.drop_columns("dead"),
    ("column_mapping_name", 6): lambda alter: alter.add_columns(
        NewColumn(path="dead", type=STRING), NewColumn(path="st.z", type=DOUBLE)
    ),
    ("default_columns", 3): lambda alter: alter.set_default("n", "99"),
    ("default_columns", 5): lambda alter: alter.set_default("s", None),
    ("nested", 2): lambda alter: alter.add_columns(NewColumn(path="st.b.e", type=INTEGER, position=after("c"))),
    ("restored", 3): lambda alter: alter.add_columns(NewColumn(path="extra", type=INTEGER)),
    ("stats_config", 2): lambda alter: alter.set_properties({"delta.dataSkippingStatsColumns": "c.y,d"}),
    ("stats_config", 4): lambda alter: alter.set_properties({"delta.dataSkippingStringPrefixLength": "2"}),
    ("type_widening", 2): lambda alter: alter.widen_column("a", SHORT),
    ("type_widening", 3): lambda alter: alter.widen_column("b", INTEGER),
    ("type_widening", 4): lambda alter: alter.widen_column("c", LONG),
    ("type_widening", 5): lambda alter: alter.widen_column("d", DOUBLE),
    ("type_widening", 6): lambda alter: alter.widen_column("e", DecimalType(12, 4)),
    ("type_widening", 7): lambda alter: alter.widen_column("f", TIMESTAMP_NTZ),
    ("type_widening", 8): lambda alter: alter.widen_column("st.x", LONG),
    ("type_widening", 9): lambda alter: alter.widen_column("arr.element", INTEGER),
    ("type_widening", 10): lambda alter: alter.widen_column("m.key", INTEGER),
    ("type_widening", 11): lambda alter: alter.widen_column("m.value", DOUBLE),
    ("type_widening", 12): lambda alter: alter.widen_column("p", LONG),
    ("type_widening", 13): lambda alter: alter.widen_column("g", DOUBLE),
    ("type_widening", 14): lambda alter: alter.widen_column("h", DecimalType(20, 2)),
    ("type_widening", 15): lambda alter: alter.widen_column("a", LONG),
}
CREATED = sorted(
    path.parents[2].name
    for path in TABLES.glob("*/table/_delta_log/00000000000000000000.json")
    if '"operation":"CREATE TABLE"' in path.read_text()
)
UNMATCHED = ("commitInfo", "createdTime", "id")


def commit(table, version):
    return table / "_delta_log" / f"{version:020}.json"


def actions(path):
    """What a commit says about the table, by the action's name; random names become equal ones."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    said = {key: value for line in lines for key, value in line.items() if key in {"metaData", "protocol", "domainMetadata"}}
    if "metaData" in said:
        said["metaData"] = {key: value for key, value in said["metaData"].items() if key not in UNMATCHED}
        said["metaData"]["schemaString"] = json.loads(said["metaData"]["schemaString"])
    if "protocol" in said:
        said["protocol"] = {key: sorted(value) if isinstance(value, list) else value for key, value in said["protocol"].items()}
    return said


def like(said, wanted):
    """``said`` with the random names that it shares with no text before replaced by those in ``wanted``, in order."""
    uuid = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
    text, names = json.dumps(said, sort_keys=True), uuid.findall(json.dumps(wanted, sort_keys=True))
    for ours, theirs in zip(uuid.findall(text), names, strict=False):
        text = text.replace(ours, theirs)
    return json.loads(text)


def operation(path):
    info = next(line for line in map(json.loads, path.read_text().splitlines()) if "commitInfo" in line)["commitInfo"]
    parameters = {key: value for key, value in info["operationParameters"].items() if value is not None}
    return info["operation"], {key: unquoted(value) for key, value in parameters.items()}, info["isBlindAppend"]


def unquoted(value):
    """A parameter whose text is JSON: the order of keys does not matter."""
    return json.loads(value) if isinstance(value, str) and value[:1] in "[{" and value else value


@pytest.mark.parametrize(("name", "version"), list(ALTERED))
def test_an_altered_table_has_the_commit_that_delta_made(name, version, tmp_path):
    original, table = TABLES / name / "table", tmp_path / "table"
    shutil.copytree(original, table)
    for file in (table / "_delta_log").iterdir():
        if not file.name[:20].isdecimal() or int(file.name[:20]) >= version:
            file.unlink()
    log = DeltaLog.for_table(str(table))
    result = ALTERED[name, version](log.alter())
    assert result.version == version
    wanted = actions(commit(original, version))
    assert like(actions(commit(table, version)), wanted) == wanted
    assert operation(commit(table, version)) == operation(commit(original, version))


@pytest.mark.parametrize("name", CREATED)
def test_a_created_table_has_the_commit_that_delta_made(name, tmp_path):
    original = commit(TABLES / name / "table", 0)
    snapshot = DeltaLog.for_table(str(TABLES / name / "table")).snapshot(0)
    properties = {key: value for key, value in snapshot.metadata.configuration.items() if key not in INTERNAL}
    features = (snapshot.protocol.writer_features or set()) - needed_features(snapshot.metadata)
    domains = [json.loads(domain.configuration) for domain in snapshot.domains.values()]
    new = NewTable(
        schema=without_column_mapping(parse_schema(snapshot.schema_string)),
        partition_columns=snapshot.partition_columns,
        clustering_columns=[path[0] for domain in domains for path in domain["clusteringColumns"]],
        properties={**properties, **{f"delta.feature.{feature}": "supported" for feature in features}},
    )
    DeltaLog.for_table(str(tmp_path / "table")).create(new)
    ours = commit(tmp_path / "table", 0)
    wanted = actions(original)
    assert like(actions(ours), wanted) == wanted
    parameters = operation(original)[1]
    kept = {key: value for key, value in parameters.items() if key != "properties"}
    assert operation(ours)[0] == "CREATE TABLE"
    assert {key: value for key, value in operation(ours)[1].items() if key != "properties"} == kept
    assert operation(ours)[1]["properties"].keys() == parameters["properties"].keys()


def test_a_statement_that_changes_nothing_commits_nothing_where_delta_does(tmp_path):
    table = tmp_path / "table"
    shutil.copytree(TABLES / "identity_columns" / "table", table)  # its last commit was SYNC IDENTITY of a column in step
    log = DeltaLog.for_table(str(table))
    assert not log.alter().sync_identity("j", 130).committed
    assert log.alter().sync_identity("j", 150).version == 5
    assert operation(commit(table, 5))[1]["column"]["metadata"]["delta.identity.highWaterMark"] == 150


def test_the_statements_cover_every_change_in_the_shared_tables():
    data = {"WRITE", "DELETE", "UPDATE", "MERGE", "OPTIMIZE", "REORG", "RESTORE", "CONVERT", "STREAMING UPDATE", "CREATE TABLE"}
    for path in TABLES.glob("*/expected.json"):
        for entry in json.loads(path.read_text())["history"]:
            name = path.parent.name
            change = (name, entry["version"])
            assert entry["operation"] in data or change in ALTERED or change == ("identity_columns", 4)


def copied(name, tmp_path):
    shutil.copytree(TABLES / name / "table", tmp_path / "table")
    return DeltaLog.for_table(str(tmp_path / "table"))


def test_the_delete_that_delta_refused_is_refused(tmp_path):
    log = copied("append_only", tmp_path)
    transaction = log.start_transaction()
    removes = removes_of(transaction.files(), deletion_timestamp=0, data_change=True)
    with pytest.raises(AppendOnlyTableError):
        transaction.commit(removes=removes, operation=Operation(name="DELETE"))
    log.alter().set_properties({"delta.appendOnly": "false"})
    again = log.start_transaction()
    assert again.commit(removes=removes, operation=Operation(name="DELETE")).committed


def test_unchecked_rows_are_refused_where_delta_refused_rows(tmp_path):
    log = copied("check_constraints", tmp_path)
    files = log.refresh().files().slice(0, 1)
    adds = files.set_column(0, files.schema.field(0), pa.array(["new.parquet"]))
    with pytest.raises(UnsupportedWriterFeatureError) as caught:
        log.start_transaction().commit(adds=adds, operation=Operation(name="WRITE"))
    assert caught.value.features == ("checkConstraints",)
    with pytest.raises(ConstraintViolatedError) as violated:  # v is 5, 6 and 700
        log.alter().add_constraint("small", "v < 500")
    assert violated.value.rows == 1
