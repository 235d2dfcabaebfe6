"""A table's change feed as a stream: each change once, over restarts, and those of one commit together."""

import datetime as dt

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import StreamingQueryException

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ChangeDataNotRecordedError, InvalidStatementError
from airflow_delta.core.statements import (
    DeleteStatement,
    MatchedUpdate,
    MergeStatement,
    NotMatchedInsert,
    SqlSource,
    UpdateStatement,
)
from airflow_delta.shipping.connect import with_code
from airflow_delta.spark.change_feed.read import read_changes
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.streaming import read_stream
from airflow_delta.spark.streaming.admission import Admission
from airflow_delta.spark.streaming.change_tail import ChangeTail
from airflow_delta.spark.streaming.offsets import StreamOffset
from airflow_delta.spark.streaming.options import StreamOptions
from tests.spark.needs import needs_stream_source

pytestmark = needs_stream_source

RECORDED = {"delta.enableChangeDataFeed": "true"}
DELETION_VECTORS = {**RECORDED, "delta.enableDeletionVectors": "true"}
SHOWN = ("id", "v", "_change_type", "_commit_version")


class Statements:
    """Statements on the table, each a commit."""

    def __init__(self, spark, uri, write_rows):
        self.spark, self.uri, self.write_rows, self.log = spark, uri, write_rows, DeltaLog.for_table(uri)

    def insert(self, first, last, **options):
        self.write_rows(f"SELECT id, id AS v FROM range({first}, {last}, 1, 1)", **options)

    def update(self, where, value):
        update(self.spark, self.log, UpdateStatement(table=self.uri, where=where, assignments={"v": value}))

    def delete(self, where):
        delete(self.spark, self.log, DeleteStatement(table=self.uri, where=where))

    def merge(self, source):
        clauses = (MatchedUpdate(), NotMatchedInsert())
        statement = MergeStatement(table=self.uri, source=SqlSource(source), on="target.id = source.id", clauses=clauses)
        merge(self.spark, self.log, statement)

    def feed(self, first):
        return sorted(map(tuple, read_changes(self.spark, self.log, first).select(*SHOWN, "_commit_timestamp").collect()))


@pytest.fixture
def run(spark, table, write_rows):
    return Statements(spark, table, write_rows)


@pytest.fixture
def changes(stream):
    """The batches, as lists of changes."""

    def batches(**options):
        found = stream(columns=[*SHOWN, "_commit_timestamp"], read_change_feed=True, **options)
        return [rows for _, rows in sorted(found.items())]

    return batches


def versions(batches):
    return [sorted({row[3] for row in rows}) for rows in batches]


@pytest.mark.parametrize(
    "properties", [RECORDED, pytest.param(DELETION_VECTORS, marks=pytest.mark.slow)], ids=["files", "deletion_vectors"]
)
def test_a_stream_tells_the_rows_at_its_start_and_then_each_change_once_over_restarts(run, changes, properties):
    run.insert(0, 3, properties=properties)
    run.insert(3, 5)
    start = DeltaLog.for_table(run.uri).snapshot().timestamp
    [first] = changes()
    assert [row[:4] for row in first] == [(n, n, "insert", 1) for n in range(5)]
    assert {round(row[4].timestamp() * 1000) for row in first} == {start}
    run.update("id = 1", "v + 10")
    run.delete("id = 4")
    run.merge("VALUES (0L, 100L), (9L, 9L) AS t(id, v)")
    [second] = changes()
    assert [row[:4] for row in second] == [
        (0, 0, "update_preimage", 4),
        (0, 100, "update_postimage", 4),
        (1, 1, "update_preimage", 2),
        (1, 11, "update_postimage", 2),
        (4, 4, "delete", 3),
        (9, 9, "insert", 4),
    ]
    assert second == run.feed(2)
    assert changes() == []


@pytest.fixture
def planned(table):
    """The batches of a stream as its reader plans them: the versions of the files of each."""

    def batches(max_files=None, max_bytes=None, **options):
        given = StreamOptions.of({"path": table, "readChangeFeed": "true", **options})
        tail = ChangeTail(DeltaLog.for_table(table), given)
        found, start = [], tail.first()
        while (end := tail.advance(start, tail.latest_version(), Admission(max_files, max_bytes))) != start:
            found.append(tail.between(start, end)["version"].to_pylist())
            tail.forget(end)
            start = StreamOffset.from_json(end.to_json())
        return found

    return batches


def test_a_batch_ends_between_commits_and_never_within_one(table, planned):
    def append(*ids):
        write_deltalake(table, pa.table({"id": ids, "p": ids}), mode="append", partition_by=["p"], configuration=RECORDED)

    append(0)
    append(1, 2, 3, 4)  # a file for each
    append(5)
    append(6)
    DeltaTable(table).update(predicate="id < 4", updates={"id": "id + 10"})
    assert planned(2, startingVersion="0") == [[0, 1, 1, 1, 1], [2, 3], [4] * 4]
    assert planned(1, startingVersion="1") == [[1] * 4, [2], [3], [4] * 4]
    assert planned(max_bytes=1, startingVersion="2") == [[2], [3], [4] * 4]
    assert planned(3) == [[4, 4, 4], [4, 4, 4], [4]]  # the rows at the start are no changes of one commit


def test_a_stream_of_changes_starts_where_its_options_say(run, planned):
    run.insert(0, 1, properties=RECORDED)
    run.insert(1, 2)
    run.delete("id = 0")
    second = dt.datetime.fromtimestamp(DeltaLog.for_table(run.uri).history()[1].timestamp / 1000, dt.UTC).isoformat()
    assert planned(startingVersion="1") == [[1, 2]]
    assert planned(startingTimestamp=second) == [[1, 2]]
    assert planned(startingVersion="latest") == []
    assert planned() == [[2]]


def test_a_batch_that_was_not_finished_comes_again_as_it_was(spark, table, run, tmp_path, keep, kept):
    run.insert(0, 2, properties=RECORDED)
    run.update("id = 0", "7")
    shown = [*SHOWN]

    def once(*, fails):
        def take(frame, number):
            keep(frame, number, shown)
            if fails and number == 1:
                raise RuntimeError("the sink is gone")

        rows = read_stream(spark, table, readChangeFeed=True, startingVersion=0, maxFilesPerTrigger=1)
        sink = rows.writeStream.foreachBatch(with_code(take)).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = sink.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    with pytest.raises(StreamingQueryException, match="the sink is gone"):
        once(fails=True)
    run.insert(5, 6)
    once(fails=False)
    updated = (1, [(0, 0, "update_preimage", 1), (0, 7, "update_postimage", 1)])
    assert kept() == [(0, [(0, 0, "insert", 0), (1, 1, "insert", 0)]), updated, updated, (2, [(5, 5, "insert", 2)])]


def test_a_table_that_does_not_record_its_changes_is_refused(spark, table, run, changes):
    run.insert(0, 1)
    with pytest.raises(ChangeDataNotRecordedError) as caught:
        read_stream(spark, table, read_change_feed=True)
    assert (caught.value.version, caught.value.table) == (0, table)
    DeltaLog.for_table(table).alter().set_properties(RECORDED)
    with pytest.raises(StreamingQueryException, match=r"DELTA_MISSING_CHANGE_DATA.*version 0"):
        changes(startingVersion=0)


def test_only_versions_in_which_changes_were_recorded_are_read(table, run, planned):
    run.insert(0, 1, properties=RECORDED)
    DeltaLog.for_table(table).alter().set_properties({"delta.enableChangeDataFeed": "false"})
    run.insert(1, 2)
    DeltaLog.for_table(table).alter().set_properties(RECORDED)
    run.insert(2, 3)
    for version, lost in (("0", 1), ("1", 1), ("2", 2)):
        with pytest.raises(ChangeDataNotRecordedError) as caught:
            # What was recorded before is still read.
            assert planned(1, startingVersion=version) == [[0]]
        assert caught.value.version == lost
    assert planned(startingVersion="3") == [[4]]


@pytest.mark.parametrize("option", ["ignoreDeletes", "ignoreChanges", "skipChangeCommits"])
def test_options_about_removed_rows_mean_nothing_beside_changes(spark, table, run, option):
    run.insert(0, 1, properties=RECORDED)
    with pytest.raises(InvalidStatementError, match=f"readChangeFeed includes removed rows, so it excludes {option}"):
        read_stream(spark, table, read_change_feed=True, **{option: True})
    read_stream(spark, table, read_change_feed=True, **{option: False})


def test_a_checkpoint_within_a_commit_is_that_of_another_stream(table):
    write_deltalake(table, pa.table({"id": [1, 2], "p": [1, 2]}), partition_by=["p"], configuration=RECORDED)
    tail = ChangeTail(DeltaLog.for_table(table), StreamOptions.of({"path": table, "readChangeFeed": "true"}))
    within = StreamOffset(table_id=tail.first().table_id, version=0, index=1)
    with pytest.raises(InvalidStatementError, match="stream without readChangeFeed"):
        tail.advance(within, 0, Admission())
