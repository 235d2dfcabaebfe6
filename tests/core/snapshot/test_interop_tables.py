"""Tables that Delta Lake 4.4.0 on Spark 4.2.0 wrote, at every version, against the rows that Spark read there."""

import importlib.util
import json
import os
import shutil

import pyarrow as pa
import pytest

from airflow_delta.core import DeltaLog
from airflow_delta.core.errors import SchemaMismatchError
from tests.golden_tables import TABLES

READ_BY_RIGHT = {
    "plain",
    "empty",
    "legacy_protocol_1_2",
    "partitioned_all_types",
    "partitioned_special",
    "many_commits",
    "multipart_checkpoint",
    "checkpoint_struct_stats",
    "nested",
    "overwrites",
    "schema_evolution",
    "append_only",
    "restored",
    "converted_parquet",
}
NAMES = sorted(path.parent.name for path in TABLES.glob("*/expected.json"))


@pytest.fixture(scope="module")
def canon():
    spec = importlib.util.spec_from_file_location("canon", TABLES / "canon.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def expected(name):
    return json.loads((TABLES / name / "expected.json").read_text())


def table(name):
    return DeltaLog.for_table(str(TABLES / name / "table"))


def rows(reader, canon, schema):
    columns = [column.to_pylist(maps_as_pydicts=None) for column in reader.read_all().columns]
    for index, field in enumerate(schema["fields"]):
        if field["type"] == "variant":
            variants = pytest.importorskip("pyspark.sql.types").VariantVal
            columns[index] = [column and variants(column["value"], column["metadata"]) for column in columns[index]]
    return canon.encode_rows(zip(*columns, strict=True), schema)


def shown(document):
    """A schema as Spark shows it: without what only writers and readers of files must know."""
    if isinstance(document, list):
        return [shown(item) for item in document]
    if not isinstance(document, dict):
        return document
    hidden = ("delta.identity.", "delta.generationExpression", "delta.columnMapping.", "delta.typeChanges")
    return {key: shown(value) for key, value in document.items() if not key.startswith(hidden)}


def test_every_table_that_must_be_readable_is_there():
    assert set(NAMES) >= READ_BY_RIGHT


@pytest.mark.parametrize("name", NAMES)
def test_every_version_is_read_equal(name, canon):
    versions = expected(name)["versions"]
    assert versions
    log = table(name)
    for version, content in versions.items():
        snapshot = log.snapshot(int(version))
        assert len(snapshot.files()) == content["num_files"], version
        assert shown(json.loads(snapshot.schema_string)) == content["schema"], version
        found = rows(snapshot.to_arrow(), canon, content["schema"])
        assert len(found) == content["row_count"], version
        assert canon.checksum(found) == content["sha256"], version


@pytest.mark.parametrize("name", NAMES)
def test_the_latest_version_is_what_spark_describes(name):
    detail, snapshot = expected(name)["detail"], table(name).snapshot()
    assert snapshot.version == expected(name)["latest_version"]
    assert snapshot.metadata.id == detail["id"]
    assert list(snapshot.partition_columns) == detail["partitionColumns"]
    assert len(snapshot.files()) == detail["numFiles"]
    assert sum(snapshot.files()["size"].to_pylist()) == detail["sizeInBytes"]
    assert snapshot.protocol.min_reader_version == detail["minReaderVersion"]
    assert snapshot.protocol.min_writer_version == detail["minWriterVersion"]
    assert dict(snapshot.metadata.configuration).items() >= detail["properties"].items()


@pytest.mark.parametrize("name", NAMES)
def test_history_is_what_spark_describes(name):
    entries = table(name).history()
    history = {history["version"]: history for history in expected(name)["history"]}
    assert [entry.version for entry in entries] == sorted(history, reverse=True)
    for entry in entries:
        reported, info = history[entry.version], entry.commit_info
        assert info.operation == reported["operation"]
        assert {key: str(value) for key, value in info.operation_metrics.items()} == reported["operationMetrics"]
        assert (info.isolation_level, info.is_blind_append) == (reported["isolationLevel"], reported["isBlindAppend"])
        assert info.origin.user_metadata == reported["userMetadata"]


def test_commits_carry_their_times_where_the_table_says_so():
    history = expected("in_commit_timestamps")["history"]
    entries = table("in_commit_timestamps").history()
    assert [entry.timestamp for entry in entries] == [entry["timestamp_ms"] for entry in reversed(history)]


@pytest.mark.parametrize("name", ["plain", "many_commits", "in_commit_timestamps"])
def test_a_time_leads_to_the_version_that_was_the_latest_then(name, tmp_path):
    history = expected(name)["history"]
    copy = tmp_path / "table"
    shutil.copytree(TABLES / name / "table" / "_delta_log", copy / "_delta_log", copy_function=shutil.copyfile)
    for entry in history:
        time = entry["timestamp_ms"] * 1_000_000
        os.utime(copy / "_delta_log" / f"{entry['version']:020d}.json", ns=(time, time))
    log = DeltaLog.for_table(str(copy))
    for entry, later in zip(history, [*history[1:], None], strict=True):
        assert log.snapshot(timestamp=entry["timestamp_ms"]).version == entry["version"]
        if later:
            assert log.snapshot(timestamp=later["timestamp_ms"] - 1).version == entry["version"]
    assert [entry.timestamp for entry in log.history()] == [entry["timestamp_ms"] for entry in reversed(history)]


@pytest.mark.parametrize("name", NAMES)
def test_predicates_select_the_rows_that_spark_selects(name, canon):
    content = expected(name)
    schema = content["versions"][str(content["latest_version"])]["schema"] if content["versions"] else None
    snapshot = table(name).snapshot()
    for query in content["queries"]:
        found = rows(snapshot.to_arrow(where=query["where"]), canon, schema)
        assert len(found) == query["row_count"], query["where"]
        assert canon.checksum(found) == query["sha256"], query["where"]
        assert len(snapshot.files(query["where"])) <= query["files_read_upper"], query["where"]


def test_rows_keep_their_ids_whatever_file_they_are_in():
    """Update, delete, merge and compaction of Spark: an id stays, and the version is that of the row's last change."""
    log = table("row_tracking")
    found = {
        version: {
            row["id"]: row for row in log.snapshot(version).to_arrow(["id", "s"], with_row_ids=True).read_all().to_pylist()
        }
        for version in range(1, 7)
    }
    assert [found[1][key]["__row_id"] for key in range(10)] == list(range(10))
    assert found[6] == found[5]
    assert {key: row["__row_id"] for key, row in found[6].items() if key < 20} == {key: key for key in range(20) if key != 5}
    for version, before in found.items():
        for key, row in found.get(version + 1, {}).items():
            last = before.get(key, {"__row_commit_version": version + 1})
            is_changed = last.get("s") != row["s"]
            assert row["__row_commit_version"] == (version + 1 if is_changed else last["__row_commit_version"])


def test_row_ids_are_refused_where_the_table_does_not_track_its_rows():
    with pytest.raises(SchemaMismatchError, match="does not track its rows"):
        table("plain").snapshot().to_arrow(with_row_ids=True)


def test_columns_come_as_asked_for():
    reader = table("plain").snapshot().to_arrow(["score", "ID"], where="name = 'n12' OR id = 8")
    assert reader.schema.names == ["score", "id"]
    assert isinstance(reader, pa.RecordBatchReader)


def test_a_table_refreshed_version_by_version_is_the_table_opened_anew(tmp_path):
    """many_commits has checkpoints at 10 and 20, which must not matter to one who follows."""
    source = TABLES / "many_commits" / "table" / "_delta_log"
    log_directory = tmp_path / "_delta_log"
    log_directory.mkdir()
    followed = DeltaLog.for_table(str(tmp_path))
    for version in range(30):
        for path in sorted(source.glob(f"{version:020d}.*")):
            shutil.copyfile(path, log_directory / path.name)
        snapshot = followed.refresh()
        anew = DeltaLog.for_table(str(tmp_path)).snapshot()
        assert snapshot.version == anew.version == version
        assert sorted(snapshot.files()["path"].to_pylist()) == sorted(anew.files()["path"].to_pylist())
