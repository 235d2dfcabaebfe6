"""An invalid statement is refused when it is made."""

import pytest

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import (
    UPSERT,
    AddColumns,
    AlterStatement,
    CheckpointStatement,
    CloneStatement,
    CompactLogStatement,
    ConvertStatement,
    CopyIntoStatement,
    CreateStatement,
    DropColumns,
    DropFeature,
    Expectation,
    FileSource,
    MaintenanceStatement,
    MatchedDelete,
    MatchedUpdate,
    MergeStatement,
    MoveColumn,
    NotMatchedInsert,
    OperationResult,
    OptimizeStatement,
    PinStatement,
    PublishStatement,
    PythonSource,
    RenameColumn,
    ReorgStatement,
    RestoreStatement,
    SequenceStatement,
    SetDefault,
    SetProperties,
    SqlSource,
    TableSource,
    UnsetProperties,
    UpgradeProtocol,
    VacuumStatement,
    WriteMode,
    WriteStatement,
)

FEED = TableSource("feed")


@pytest.mark.parametrize(
    "make",
    [
        lambda: MergeStatement(table="", source=FEED, on="a = b"),
        lambda: MergeStatement(table="t", source="feed", on="a = b"),
        lambda: MergeStatement(table="t", source=FEED, on="  "),
        lambda: MergeStatement(table="t", source=FEED, on="a = b", clauses=()),
        lambda: MergeStatement(table="t", source=FEED, on="a = b", clauses=("update",)),
        lambda: MergeStatement(table="t", source=FEED, on="a = b", clauses=(MatchedDelete(), MatchedUpdate())),
        lambda: MergeStatement(table="t", source=FEED, on="a = b", expect=(1,)),
        lambda: MatchedUpdate(assignments={}),
        lambda: MatchedUpdate(assignments=["a"]),
        lambda: NotMatchedInsert(assignments={"a": 1}),
        lambda: MatchedDelete(condition=" "),
        lambda: MatchedDelete(condition=True),
        lambda: WriteStatement(table="t", source=FEED, mode="upsert"),
        lambda: WriteStatement(table="t", source=FEED, mode="replace_where"),
        lambda: WriteStatement(table="t", source=FEED, mode="append", replace_where="day = 1"),
        lambda: WriteStatement(table="t", source=FEED, overwrite_schema=True),
        lambda: WriteStatement(table="t", source=FEED, mode="create_or_replace", merge_schema=True),
        lambda: WriteStatement(table="t", source=FEED, mode="overwrite", merge_schema=True, overwrite_schema=True),
        lambda: WriteStatement(table="t", source=FEED, partition_by="a", cluster_by="b"),
        lambda: WriteStatement(table="t", source=FEED, txn=("app", "one")),
        lambda: WriteStatement(table="t", source=FEED, txn=("app", -1)),
        lambda: WriteStatement(table="t", source=FEED, txn="app"),
        lambda: WriteStatement(table="t", source=FEED, txn=(" ", 1)),
        lambda: WriteStatement(table="t", source=FEED, user_metadata={"a": 1}),
        lambda: WriteStatement(table="t", source=FEED, user_metadata="x" * 100_001),
        lambda: CopyIntoStatement(table="t", path="/p", format="csv", user_metadata="x" * 100_001),
        lambda: WriteStatement(table="t", source=FEED, properties={"a": 1}),
        lambda: OptimizeStatement(table="t", target_file_size=0),
        lambda: OptimizeStatement(table="t", z_order_by=("a", " ")),
        lambda: OptimizeStatement(table="t", z_order_by="a", full=True),
        lambda: OptimizeStatement(table="t", z_order_by="a", small_file_size=1),
        lambda: ReorgStatement(table="t", where=" "),
        lambda: VacuumStatement(table="t", retention_hours=-1),
        lambda: VacuumStatement(table="t", lite=True, inventory="files.parquet"),
        lambda: CheckpointStatement(table="t", kind="quick"),
        lambda: CompactLogStatement(table="t", start="one"),
        lambda: CreateStatement(table="t", columns=""),
        lambda: CreateStatement(table="t", columns={}),
        lambda: CreateStatement(table="t", columns={"a": None}),
        lambda: CreateStatement(table="t", columns=["a INT"]),
        lambda: CreateStatement(table="t", columns="a INT", mode="overwrite"),
        lambda: CreateStatement(table="t", columns="a INT", partition_by="a", cluster_by="a"),
        lambda: CreateStatement(table="t", columns="a INT", properties={"a": 1}),
        lambda: CreateStatement(table="t", columns="a INT", constraints=["a > 0"]),
        lambda: CloneStatement(table="t", source=FileSource("path", format="csv")),
        lambda: ConvertStatement(table="t", partition_by={"day": "DATE"}, infer_partitions=True),
        lambda: RestoreStatement(table="t"),
        lambda: RestoreStatement(table="t", version=1, timestamp="2013-01-01"),
        lambda: RestoreStatement(table="t", version="one"),
        lambda: AlterStatement(table="t", changes=()),
        lambda: AlterStatement(table="t", changes=["ADD COLUMN a INT"]),
        lambda: AlterStatement(table="t", changes=[DropFeature("f"), DropColumns("a")]),
        lambda: AlterStatement(table="t", changes=DropFeature("f"), dry_run=True),
        lambda: AddColumns("a INT", first=True, after="b"),
        lambda: MoveColumn("a"),
        lambda: RenameColumn("a", " "),
        lambda: DropColumns(()),
        lambda: SetProperties({}),
        lambda: SetDefault("a", ""),
        lambda: UpgradeProtocol("3.0", 7),
        lambda: TableSource("t", version=1, timestamp="2013-01-01"),
        lambda: TableSource(" "),
        lambda: FileSource("path", format=""),
        lambda: SqlSource("SELECT 1", views={"v": "table"}),
        lambda: Expectation(""),
    ],
)
def test_what_cannot_be_meant_is_refused(make):
    with pytest.raises(InvalidStatementError):
        make()


def test_the_last_clause_of_each_kind_may_lack_a_condition():
    clauses = [MatchedDelete(condition="source.gone"), NotMatchedInsert(), MatchedUpdate()]
    assert MergeStatement(table="t", source=FEED, on="a = b", clauses=clauses).clauses == tuple(clauses)


def test_plain_texts_and_lists_are_taken_for_what_they_mean():
    statement = WriteStatement(
        table="t", source=FEED, mode="overwrite", partition_by="day", expect="rows > 0", txn=["app", "7"]
    )
    assert statement.txn == ("app", 7)
    assert statement.mode is WriteMode.OVERWRITE
    assert statement.partition_by == ("day",)
    assert statement.expect == (Expectation("rows > 0"),)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ("id BIGINT, day DATE", "id BIGINT, day DATE"),
        ({"id": "BIGINT", "day": "DATE"}, "`id` BIGINT, `day` DATE"),
        ({"a.b c": "INT"}, "`a.b c` INT"),
        ({"`a``b`": "INT"}, "`a``b` INT"),
    ],
)
def test_columns_are_one_text_in_which_order_matters(columns, text):
    assert CreateStatement(table="t", columns=columns).columns == text


def test_of_columns_that_are_added_a_name_is_a_path():
    assert AddColumns({"address.zip": "INT", "`a.b`": "INT"}).columns == "`address`.`zip` INT, `a.b` INT"


def test_a_version_written_as_text_is_a_number():
    assert TableSource("t", version=" 12 ").version_number == 12
    assert TableSource("t").version_number is None


@pytest.mark.parametrize(
    ("sql", "is_query"),
    [
        ("delays >= 0", False),
        ("selected", False),
        ("carrier IN (SELECT carrier FROM airlines)", False),
        ("SELECT count(*) > 0 FROM staged", True),
        ("\n with a AS (SELECT 1) SELECT true FROM a", True),
        ("(SELECT true)", True),
    ],
)
def test_an_expectation_is_a_query_when_it_starts_as_one(sql, is_query):
    assert Expectation(sql).is_query is is_query


def test_a_result_survives_json():
    result = OperationResult(
        table="t",
        version=4,
        read_version=2,
        operation="MERGE",
        committed=True,
        metrics={"rows": 1},
        conflicts=({"version": 3},),
    )
    assert OperationResult.from_json(result.to_json()) == result


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: WriteStatement(table="t", source=FEED, expect=None), "expect must be a list, found None"),
        (lambda: WriteStatement(table="t", source=FEED, expect={"positive": "a > 0"}), "must be a list, found {'positive'"),
        (lambda: WriteStatement(table="t", source="/feed"), r"source must be TableSource\(...\), .* found '/feed'"),
        (lambda: WriteStatement(table=" ", source=FEED), "table must be a text with something in it, found ' '"),
        (lambda: MergeStatement(table="t", source=FEED, on="a", clauses=[UPSERT]), r"a clause must be MatchedUpdate\(...\), "),
        (lambda: WriteStatement(table="t", source=FEED, partition_by=None), "partition_by must be a list, found None"),
        (lambda: WriteStatement(table="t", source=FEED, cluster_by=7), "cluster_by must be a list, found 7"),
        (lambda: OptimizeStatement(table="t", z_order_by=None), "z_order_by must be a list, found None"),
        (lambda: MaintenanceStatement(table="t", steps=None), "steps must be a list, found None"),
        (lambda: AlterStatement(table="t", changes=None), "changes must be a list, found None"),
        (lambda: MergeStatement(table="t", source=FEED, on="a", clauses=None), "clauses must be a list, found None"),
        (lambda: PublishStatement(handles=None), "handles must be a list, found None"),
        (lambda: PinStatement(tables=None, id="a"), "tables must be a list, found None"),
        (lambda: SequenceStatement(statements=None), "statements must be a list, found None"),
        (lambda: SqlSource("SELECT 1", views=None), "views must be a mapping, found None"),
        (lambda: PythonSource("module:rows", arguments=None), "arguments must be a mapping, found None"),
        (lambda: FileSource("/in", format="csv", options=None), "options must be a mapping, found None"),
    ],
)
def test_what_has_to_be_a_list_or_a_mapping_and_is_none_is_refused_by_its_name(make, text):
    with pytest.raises(InvalidStatementError, match=text):
        make()


@pytest.mark.parametrize("kind", [set, frozenset])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda names: WriteStatement(table="t", source=FEED, partition_by=names), "partition_by"),
        (lambda names: CreateStatement(table="t", columns={"a": "INT"}, cluster_by=names), "cluster_by"),
        (lambda names: WriteStatement(table="t", source=FEED, expect=names), "expect"),
        (lambda names: OptimizeStatement(table="t", z_order_by=names), "z_order_by"),
        (lambda names: CopyIntoStatement(table="t", path="/in", format="csv", select=names), "select"),
        (lambda names: MaintenanceStatement(table="t", steps=names), "steps"),
        (DropColumns, "columns"),
        (UnsetProperties, "names"),
        (lambda names: AlterStatement(table="t", changes=names), "changes"),
        (lambda names: MergeStatement(table="t", source=FEED, on="a", clauses=names), "clauses"),
        (lambda names: PublishStatement(handles=names), "handles"),
    ],
)
def test_a_set_in_place_of_a_list_is_refused_because_a_retry_would_find_another_order(make, name, kind):
    with pytest.raises(InvalidStatementError) as refused:
        make(kind(["checkpoint", "vacuum"]))
    assert f"{name} must be a list, found the set " in refused.value.detail
    assert refused.value.detail.endswith("whose order differs from process to process; write a list")


def test_the_names_of_a_mapping_are_a_list_in_the_order_in_which_they_were_written():
    columns = {"day": "DATE", "carrier": "STRING"}
    assert WriteStatement(table="t", source=FEED, partition_by=columns.keys()).partition_by == ("day", "carrier")
