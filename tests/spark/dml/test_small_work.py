"""Small statements over Spark Connect do the work of Python workers in this process; with the same rows, files and errors."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ConstraintViolatedError, CorruptDataFileError
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import LONG, STRING, VARIANT
from airflow_delta.core.statements import (
    UPSERT,
    DeleteStatement,
    MatchedDelete,
    MatchedUpdate,
    MergeStatement,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    SqlSource,
    TableSource,
    UpdateStatement,
)
from airflow_delta.core.table_changes import NewTable
from airflow_delta.spark.change_feed.read import read_changes
from airflow_delta.spark.dml import effects, staged_changes
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.io import row_cache, small_work
from airflow_delta.spark.io.map_files import map_files
from airflow_delta.spark.jvm import is_connect
from airflow_delta.spark.rewrite import rewrite
from airflow_delta.spark.rewrite.rewrite import FileRewrite
from airflow_delta.spark.spark_features import takes_layout_as_option
from airflow_delta.spark.statement import sources, staged_rows
from tests.slow_cases import slow_after

SCHEMA = StructType((StructField("id", LONG), StructField("name", STRING), StructField("at", STRING)))
ROWS = "SELECT id, concat('bird ', id) AS name, IF(id < 6, 'sea', 'wood') AS at FROM range(10)"
BIRDS = {
    "id": [*range(10)],
    "name": [f"bird {number}" for number in range(10)],
    "at": ["sea" if number < 6 else "wood" for number in range(10)],
}
FEED = "delta.enableChangeDataFeed"


@pytest.fixture
def here(monkeypatch, spark):
    """A session as of Spark Connect, without Python workers."""
    if is_connect(spark) and not takes_layout_as_option(spark):
        pytest.skip("over Spark Connect the tables of these tests are written by Python workers before Spark 4.2")
    monkeypatch.setattr(small_work, "is_connect", lambda _: True)

    def refuse(*_):
        raise AssertionError("a Python worker was asked for")

    monkeypatch.setattr(type(spark.range(1)), "mapInArrow", refuse)


def make(write_rows, table, **properties):
    log = DeltaLog.for_table(table)
    log.create(NewTable(schema=SCHEMA, partition_columns=("at",), properties=properties))
    write_rows(ROWS)
    return log


def change(spark, log, table):
    """A row updated in its place, one in another partition, one inserted, one updated, one deleted."""
    news = SqlSource("VALUES (4L, 'new', 'sea'), (5L, 'moved', 'wood'), (12L, 'fresh', 'wood') AS t(id, name, at)")
    merged = merge(spark, log, MergeStatement(table=table, source=news, on="target.id = source.id", clauses=UPSERT))
    update(spark, log, UpdateStatement(table=table, where="id % 7 = 0", assignments={"name": "upper(name)"}))
    delete(spark, log, DeleteStatement(table=table, where="length(name) = 6 AND id > 7"))
    return merged


CHANGED = [
    *[(0, "BIRD 0", "sea"), (1, "bird 1", "sea"), (2, "bird 2", "sea"), (3, "bird 3", "sea"), (4, "new", "sea")],
    *[(5, "moved", "wood"), (6, "bird 6", "wood"), (7, "BIRD 7", "wood"), (12, "fresh", "wood")],
]


@pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "true"}], ids=["rewritten", "deletion vectors"])
def test_statements_leave_the_same_rows_without_a_python_worker(spark, write_rows, table, duckdb_connection, here, properties):
    log = make(write_rows, table, **properties)
    merged = change(spark, log, table)
    read = duckdb_connection.sql(f"""SELECT id, name, "at" FROM delta_scan('{table}') ORDER BY id""").fetchall()
    assert read == CHANGED
    counts = {name: merged.metrics[f"numTargetRows{name}"] for name in ("Inserted", "Updated", "Deleted")}
    assert counts == {"Inserted": 1, "Updated": 2, "Deleted": 0}


CLAUSES = [
    MatchedDelete(condition="source.name = 'gone'"),
    MatchedUpdate(),
    NotMatchedInsert(),
    NotMatchedBySourceUpdate(condition="target.id = 1", assignments={"at": "'wood'"}),
    NotMatchedBySourceDelete(condition="target.id < 3"),
]
NEWS = SqlSource("VALUES (4L, 'new', 'sea'), (5L, 'moved', 'wood'), (6L, 'gone', ''), (12L, 'fresh', 'sea') AS t(id, name, at)")
MERGED_ROWS = [
    *[(1, "bird 1", "wood"), (3, "bird 3", "sea"), (4, "new", "sea"), (5, "moved", "wood")],
    *[(7, "bird 7", "wood"), (8, "bird 8", "wood"), (9, "bird 9", "wood"), (12, "fresh", "sea")],
]
MERGED = {
    "Inserted": 1,
    "MatchedUpdated": 2,
    "MatchedDeleted": 1,
    "NotMatchedBySourceUpdated": 1,
    "NotMatchedBySourceDeleted": 2,
}


@pytest.fixture
def changes(monkeypatch, spark):
    """A session as of Spark Connect, whose rows this process keeps; in what form changes of rows came to be applied."""
    for module in (small_work, row_cache):
        monkeypatch.setattr(module, "is_connect", lambda _: True)
    monkeypatch.setattr(effects, "_counted", None)
    forms, change = [], FileRewrite.change

    def record(rewrite, session, rows, *others, **named):
        forms.append(type(rows))
        return change(rewrite, session, rows, *others, **named)

    monkeypatch.setattr(FileRewrite, "change", record)
    return forms


@pytest.mark.parametrize("tracks", ["true", "false"], ids=["row tracking", "plain"])
@pytest.mark.parametrize("vectors", ["true", "false"], ids=["deletion vectors", "rewritten"])
def test_rows_that_this_process_keeps_are_counted_and_changed_without_a_job(
    spark, write_rows, table, duckdb_connection, here, changes, tracks, vectors
):
    log = make(write_rows, table, **{"delta.enableRowTracking": tracks, "delta.enableDeletionVectors": vectors})

    merged = merge(spark, log, MergeStatement(table=table, source=NEWS, on="target.id = source.id", clauses=CLAUSES))

    assert changes == ([] if vectors == "true" else [pa.Table])
    assert duckdb_connection.sql(f"""SELECT id, name, "at" FROM delta_scan('{table}') ORDER BY id""").fetchall() == MERGED_ROWS
    assert {name: merged.metrics[f"numTargetRows{name}"] for name in MERGED} == MERGED


@pytest.mark.parametrize("tracks", ["true", "false"], ids=["row tracking", "plain"])
@pytest.mark.parametrize("vectors", ["true", "false"], ids=["deletion vectors", "rewritten"])
def test_new_rows_that_this_process_keeps_are_written_without_a_job(
    spark, write_rows, table, duckdb_connection, here, changes, monkeypatch, tracks, vectors
):
    properties = {"delta.enableRowTracking": tracks, "delta.enableDeletionVectors": vectors}
    log = DeltaLog.for_table(table)
    log.create(NewTable(schema=SCHEMA, properties=properties))
    write_rows(ROWS)
    before = row_ids(log) if tracks == "true" else {}
    monkeypatch.setattr(staged_rows, "write_files", None)

    merged = merge(spark, log, MergeStatement(table=table, source=NEWS, on="target.id = source.id", clauses=CLAUSES))

    assert changes == ([] if vectors == "true" else [pa.Table])
    assert duckdb_connection.sql(f"""SELECT id, name, "at" FROM delta_scan('{table}') ORDER BY id""").fetchall() == MERGED_ROWS
    assert {name: merged.metrics[f"numTargetRows{name}"] for name in MERGED} == MERGED
    files = pa.table(DeltaTable(table).get_add_actions(flatten=True))
    assert files["min.id"].null_count + files["max.name"].null_count == 0
    if tracks == "true":
        after = row_ids(log)
        assert {number: after[number] for number in before.keys() & after} == {n: before[n] for n in before.keys() & after}
        assert after[12] not in before.values()


def row_ids(log):
    rows = log.refresh().to_arrow(with_row_ids=True).read_all()
    return dict(zip(rows["id"].to_pylist(), rows["__row_id"].to_pylist(), strict=True))


@pytest.mark.parametrize("constraint", ["CHECK", "NOT NULL"])
def test_a_new_row_that_this_process_keeps_and_that_breaks_a_constraint_is_refused(spark, table, here, changes, constraint):
    log = DeltaLog.for_table(table)
    name = StructField("name", STRING, nullable=constraint != "NOT NULL")
    log.create(NewTable(schema=StructType((SCHEMA.fields[0], name, SCHEMA.fields[2]))))
    if constraint == "CHECK":
        log.alter().add_constraint("known", "name <> 'unknown'")
    version = log.refresh().version
    news = SqlSource("SELECT 1L AS id, CAST(NULL AS STRING) AS name, 'sea' AS at")
    with pytest.raises(ConstraintViolatedError) as refused:
        merge(spark, log, MergeStatement(table=table, source=news, on="target.id = source.id", clauses=[NotMatchedInsert()]))
    assert refused.value.rows == 1
    assert log.refresh().version == version


def test_few_changes_that_this_process_keeps_are_applied_to_large_files_by_workers(
    spark, write_rows, table, duckdb_connection, changes, monkeypatch
):
    log = make(write_rows, table)
    monkeypatch.setattr(rewrite, "is_done_here", lambda *_, **__: False)

    merge(spark, log, MergeStatement(table=table, source=NEWS, on="target.id = source.id", clauses=CLAUSES))

    assert changes == [pa.Table]
    assert duckdb_connection.sql(f"""SELECT id, name, "at" FROM delta_scan('{table}') ORDER BY id""").fetchall() == MERGED_ROWS


@pytest.mark.slow
def test_they_leave_the_same_change_feed(spark, table, monkeypatch):
    feeds = []
    for place, is_here in ((table, False), (f"{table}-here", True)):
        log = DeltaLog.for_table(place)
        log.create(NewTable(schema=SCHEMA, partition_columns=("at",), properties={FEED: "true"}))
        merge(spark, log, MergeStatement(table=place, source=SqlSource(ROWS), on="target.id = source.id", clauses=UPSERT))
        with monkeypatch.context() as patched:
            patched.setattr(small_work, "is_connect", lambda _, answer=is_here: answer)
            change(spark, log, place)
        changes = read_changes(spark, log, 2, log.refresh().version).select("id", "name", "at", "_change_type")
        feeds.append(sorted(map(tuple, changes.collect())))
    assert feeds[0] == feeds[1]
    assert len(feeds[0]) == 11


def test_a_missing_data_file_is_the_error_that_a_worker_would_raise(spark, write_rows, table, here):
    log = make(write_rows, table)
    for path in Path(table).rglob("*.parquet"):
        path.unlink()
    with pytest.raises(CorruptDataFileError) as failed:
        delete(spark, log, DeleteStatement(table=table, where="length(name) = 6"))
    assert "the file does not exist" in str(failed.value)


@pytest.mark.parametrize(
    ("on", "clauses"),
    slow_after(
        3,
        [
            ("target.id = source.id", UPSERT),
            ("source.ID = target.id AND target.name <> source.name", UPSERT),
            ("target.id = source.id + 0", UPSERT),
            ("target.at = source.at AND target.id = source.id", (MatchedDelete(condition="source.name IS NULL"), *UPSERT)),
            ("target.id < source.id AND source.id = 1", (MatchedUpdate(assignments={"name": "source.name"}),)),
            ("target.id = source.id", (*UPSERT, NotMatchedBySourceDelete(condition="target.id = 9"))),
        ],
    ),
)
def test_a_merge_from_a_small_table_is_the_same_by_either_reader(spark, write_rows, tmp_path, here, monkeypatch, on, clauses):
    feed = str(tmp_path / "feed")
    news = {"id": [1, 4, 12, None], "name": [None, "moved", "new", "lost"], "at": ["sea", "wood", "wood", "sea"]}
    write_deltalake(feed, pa.table(news))
    done = []
    for holds in (True, False):
        if not holds:
            monkeypatch.setattr(sources, "hold_table", lambda *_, **__: None)
        table = str(tmp_path / f"birds_{holds}")
        log = DeltaLog.for_table(table)
        log.create(NewTable(schema=SCHEMA, partition_columns=("at",)))
        write_deltalake(table, pa.table(BIRDS), mode="append")
        result = merge(spark, log, MergeStatement(table=table, source=TableSource(feed), on=on, clauses=clauses))
        counts = {name: count for name, count in result.metrics.items() if name.startswith("numTargetRows")}
        done.append(
            (result.metrics["numSourceRows"], counts, sorted(map(repr, DeltaTable(table).to_pyarrow_table().to_pylist())))
        )
    assert done[0] == done[1]
    assert done[0][0] == 4


@pytest.mark.parametrize(
    ("column", "size", "expected"),
    [
        (StructField("v", LONG), small_work.MOST_BYTES, True),
        (StructField("v", LONG), small_work.MOST_BYTES + 1, False),
        (StructField("v", VARIANT), 1, False),
        (StructField("v", StructType((StructField("w", LONG),))), 1, False),
        (StructField("v", STRING, metadata={"comment": "the name"}), 1, True),
        (StructField("v", STRING, metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}), 1, False),
        (StructField("v", STRING, metadata={"__COLLATIONS": {"v": "spark.UTF8_LCASE"}}), 1, False),
    ],
    ids=["small", "large", "variant", "nested", "with a comment", "padded", "with a collation"],
)
def test_only_small_work_on_plain_columns_is_done_here(monkeypatch, column, size, expected):
    monkeypatch.setattr(small_work, "is_connect", lambda _: True)
    assert small_work.is_done_here(None, StructType((column,)), size) is expected


def test_many_files_are_left_to_the_workers(monkeypatch):
    monkeypatch.setattr(small_work, "is_connect", lambda _: True)
    columns = StructType((StructField("v", LONG),))
    done = [small_work.is_done_here(None, columns, 1, files=small_work.MOST_FILES + more) for more in (0, 1)]
    assert done == [True, False]


@pytest.mark.classic(reason="the test is about a classic session")
def test_a_classic_session_leaves_all_work_to_its_workers(spark):
    assert not small_work.is_done_here(spark, StructType((StructField("v", LONG),)), 1)


def test_rows_that_are_more_than_their_file_shows_are_left_to_the_workers(spark, table, monkeypatch):
    write_deltalake(table, pa.table({"id": range(30), "text": ["x" * 1_000] * 30}))
    monkeypatch.setattr(small_work, "is_connect", lambda _: True)
    snapshot, read = DeltaLog.for_table(table).snapshot(), []

    def by_workers(*arguments, **options):
        read.append("by workers")
        return map_files(*arguments, **options)

    monkeypatch.setattr(staged_changes, "map_files", by_workers)
    for most in (100_000, 20_000):
        monkeypatch.setattr(small_work, "MOST_BYTES", most)
        read.append(most)
        assert staged_changes.scan_positions(spark, snapshot, snapshot.files(), snapshot.schema).count() == 30
    assert read == [100_000, 20_000, "by workers"]
