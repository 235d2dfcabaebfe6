"""A table as a streaming source: each new row once, over restarts; a change that adds no row is an error."""

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import StreamingQueryException

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, TableNotFoundError
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.shipping.connect import with_code
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.statement.times import as_instant
from airflow_delta.spark.streaming import read_stream
from airflow_delta.spark.streaming.admission import Admission
from airflow_delta.spark.streaming.log_tail import LogTail
from airflow_delta.spark.streaming.offsets import StreamOffset
from airflow_delta.spark.streaming.options import StreamOptions
from tests.spark.needs import needs_stream_source
from tests.spark.session_settings import session_settings

pytestmark = needs_stream_source


@pytest.fixture
def append(table):
    """Add ids as one commit of deltalake's, one file."""

    def run(first, last, **options):
        write_deltalake(table, pa.table({"id": pa.array(range(first, last), pa.int64())}), mode="append", **options)

    return run


def added_by(table, version):
    lines = (Path(table) / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    return [action["add"]["path"] for action in map(json.loads, lines) if "add" in action]


def ids(batches):
    return [[row[0] for row in rows] for _, rows in sorted(batches.items())]


def test_a_stream_reads_the_table_and_then_each_commit_once_over_restarts(table, append, stream):
    append(0, 3)
    assert ids(stream()) == [[0, 1, 2]]
    append(3, 5)
    append(5, 6)
    DeltaTable(table).optimize.compact()
    assert ids(stream()) == [[3, 4, 5]]
    DeltaTable(table).alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
    assert stream() == {}


@pytest.mark.slow  # each start of a stream takes seconds
def test_batches_hold_at_most_so_many_files_or_bytes(table, append, stream):
    for first in range(5):
        append(first, first + 1)
    assert ids(stream(maxFilesPerTrigger=2)) == [[0, 1], [2, 3], [4]]
    size = DeltaLog.for_table(table).snapshot().files()["size"][0].as_py()
    assert ids(stream(maxBytesPerTrigger=2 * size, startingVersion=1, checkpoint="bytes")) == [[1, 2], [3, 4]]


@pytest.mark.slow  # each start of a stream takes seconds
def test_a_stream_starts_where_its_options_say(table, append, stream):
    for first in range(3):
        append(first, first + 1)
    second = dt.datetime.fromtimestamp(DeltaLog.for_table(table).history()[1].timestamp / 1000, dt.UTC).isoformat()
    assert ids(stream(checkpoint="version", startingVersion=2)) == [[2]]
    assert ids(stream(checkpoint="time", startingTimestamp=second)) == [[1, 2]]
    assert ids(stream(checkpoint="latest", startingVersion="latest")) == [[]]
    append(3, 4)
    assert ids(stream(checkpoint="latest", startingVersion="latest")) == [[3]]


def test_a_time_before_the_oldest_commit_starts_with_it_whatever_versions_can_be_rebuilt(table, append):
    for first in range(4):
        append(first, first + 1)
    log = DeltaLog.for_table(table)
    log.checkpoint()
    (Path(table) / "_delta_log" / f"{0:020d}.json").unlink()
    started = LogTail(log, StreamOptions(path=table, starting_timestamp="2000-01-01")).first()
    assert (started.version, started.is_snapshot) == (1, False)


@pytest.mark.slow
def test_removed_rows_end_a_stream_unless_its_options_skip_them(table, append, stream):
    append(0, 3)
    assert ids(stream()) == [[0, 1, 2]]
    append(3, 4)
    DeltaTable(table).delete("id = 1")
    append(4, 5)
    with pytest.raises(StreamingQueryException, match=r"DELTA_SOURCE_TABLE_IGNORE_CHANGES.*version 2.*DELETE"):
        stream()
    assert ids(stream(skipChangeCommits=True)) == [[4]]


@pytest.mark.slow  # each start of a stream takes seconds
def test_changed_files_are_read_again_where_that_is_asked_for(table, append, stream):
    append(0, 2)
    stream()
    DeltaTable(table).update(updates={"id": "id + 10"}, predicate="id = 1")
    assert ids(stream(ignoreChanges=True)) == [[0, 11]]
    DeltaTable(table).delete()
    with pytest.raises(StreamingQueryException, match="DELTA_SOURCE_TABLE_IGNORE_CHANGES"):
        stream()
    assert stream(ignoreDeletes=True) == {}


def test_a_new_column_ends_the_running_stream_and_a_restart_reads_on(spark, table, append, tmp_path, keep, kept):
    append(0, 1)

    def start():
        return (
            read_stream(spark, table)
            .writeStream.foreachBatch(with_code(keep))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
        )

    query = start().start()
    query.processAllAvailable()
    write_deltalake(table, pa.table({"id": [1], "note": ["new"]}), mode="append", schema_mode="merge")
    with pytest.raises(StreamingQueryException, match=r"DELTA_SCHEMA_CHANGED.*version 1"):
        query.processAllAvailable()
    start().trigger(availableNow=True).start().awaitTermination()
    assert [rows for _, rows in kept()] == [[(0,)], [(1, "new")]]


@pytest.mark.slow
def test_a_backlog_of_fewer_columns_is_read_with_nulls(table, append, stream):
    append(0, 1)
    write_deltalake(table, pa.table({"id": [1], "note": ["new"]}), mode="append", schema_mode="merge")
    assert stream(startingVersion=0) == {0: [(0, None), (1, "new")]}


@pytest.mark.slow
def test_commits_that_were_cleaned_up_before_they_were_read_are_an_error(table, append, stream):
    append(0, 1)
    stream()
    append(1, 2)
    append(2, 3)
    DeltaLog.for_table(table).checkpoint()
    (Path(table) / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(StreamingQueryException, match="DELTA_STREAM_LOG_LOST"):
        stream()


def test_commits_that_held_nothing_may_be_cleaned_up_before_the_next_rows_come(table, append):
    append(0, 1)
    log = DeltaLog.for_table(table)
    tail = LogTail(log, StreamOptions.of({"path": table, "startingVersion": "0"}))
    start = tail.advance(tail.first(), tail.latest_version(), Admission())
    for number in range(3):
        log.alter().set_properties({"custom": str(number)})
    assert tail.advance(start, tail.latest_version(), Admission()) == start
    append(1, 2)
    log.checkpoint()
    for version in range(1, 4):
        (Path(table) / "_delta_log" / f"{version:020d}.json").unlink()
    end = tail.advance(start, tail.latest_version(), Admission())
    assert (end.version, tail.between(start, end)["path"].to_pylist()) == (5, added_by(table, 4))


def test_an_offset_does_not_wait_behind_many_commits_without_rows(table, append):
    append(0, 1)
    log = DeltaLog.for_table(table)
    tail = LogTail(log, StreamOptions.of({"path": table, "startingVersion": "0"}))
    start = tail.advance(tail.first(), tail.latest_version(), Admission())
    for number in range(20):
        log.alter().set_properties({"custom": str(number)})
    end = tail.advance(start, tail.latest_version(), Admission())
    assert (end.version, len(tail.between(start, end))) == (21, 0)


@pytest.mark.slow
def test_another_table_at_the_same_path_is_an_error(table, append, stream):
    append(0, 1)
    stream()
    for file in (Path(table) / "_delta_log").iterdir():
        file.unlink()
    append(0, 1)
    append(1, 2)
    with pytest.raises(StreamingQueryException, match="DELTA_STREAM_TABLE_REPLACED"):
        stream()


@pytest.mark.slow
def test_partitions_old_dates_nested_values_and_hidden_rows_arrive_as_a_read_shows_them(write_rows, stream, spark, table):
    write_rows(
        "SELECT id, if(id = 2, NULL, concat('a/b=%', id)) AS p, DATE'1500-03-01' + CAST(id AS INT) AS d, "
        "TIMESTAMP'1850-01-01 00:00:00' AS t, named_struct('x', array(id, NULL), 'm', map('k', id)) AS s, "
        "CAST(id AS DECIMAL(20, 3)) AS n FROM range(4)",
        partition_by=("p",),
    )
    expected = read_table(spark, DeltaLog.for_table(table).snapshot())
    columns = "to_json(struct(*), map('timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS'))"
    assert stream(columns=columns) == {0: sorted(tuple(row) for row in expected.selectExpr(columns).collect())}


@pytest.mark.slow
def test_texts_are_padded_and_compared_as_a_read_shows_them(spark, table, write_rows, stream):
    columns = parse_struct("c CHAR(3), s STRUCT<n: CHAR(2)>, p CHAR(4), t STRING COLLATE UTF8_LCASE")
    DeltaLog.for_table(table).create(NewTable(schema=columns, partition_columns=("p",)))
    write_rows("SELECT 'a' AS c, NAMED_STRUCT('n', 'b') AS s, 'd' AS p, 'Ef' AS t")
    assert read_stream(spark, table).schema["t"].dataType.collation == "UTF8_LCASE"
    shown = ["concat(c, s.n, p, '.')", "t = 'eF'"]
    [expected] = read_table(spark, DeltaLog.for_table(table).snapshot()).selectExpr(*shown).collect()
    assert stream(columns=shown) == {0: [tuple(expected)]} == {0: [("a  b d   .", True)]}


def test_a_time_without_a_zone_is_one_of_the_session(spark, table, append):
    append(0, 1)
    with session_settings(spark, {"spark.sql.session.timeZone": "Asia/Tokyo"}):
        assert as_instant(spark, "2024-03-01 09:00", statement="") == "2024-03-01T00:00:00+00:00"
        with pytest.raises(InvalidStatementError, match="'soon' is no time"):
            read_stream(spark, table, startingTimestamp="soon")


def test_an_offset_of_deltas_own_source_is_refused_with_what_to_do():
    with pytest.raises(
        InvalidStatementError, match=r"of another source, whose offset has index, reservoirVersion; .*startingVersion"
    ):
        StreamOffset.from_json({"reservoirVersion": 3, "index": -1})


@pytest.mark.parametrize(
    ("options", "detail"),
    [
        ({"maxFilesPerTriger": 1}, "unknown options maxfilespertriger"),
        ({"maxFilesPerTrigger": 0}, "at least 1"),
        ({"startingVersion": 0, "startingTimestamp": "2020-01-01"}, "exclude each other"),
        ({"startingVersion": "first"}, "no number"),
        ({"ignoreChanges": "perhaps"}, "neither true nor false"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_at_once(spark, table, append, options, detail):
    append(0, 1)
    with pytest.raises(InvalidStatementError, match=detail):
        read_stream(spark, table, **options)


def test_a_missing_table_is_an_error_at_once_and_a_missing_version_where_a_new_stream_begins(spark, table, append, stream):
    with pytest.raises(TableNotFoundError):
        read_stream(spark, table)
    append(0, 1)
    with pytest.raises(StreamingQueryException, match="DELTA_VERSION_NOT_FOUND"):
        stream(startingVersion=7)


@pytest.mark.slow
def test_a_stream_that_goes_on_does_not_need_the_version_that_it_began_with(table, append, stream):
    append(0, 1)
    assert ids(stream(startingVersion=0)) == [[0]]
    append(1, 2)
    DeltaLog.for_table(table).checkpoint()
    (Path(table) / "_delta_log" / f"{0:020d}.json").unlink()
    assert ids(stream(startingVersion=0)) == [[1]]


def test_what_the_checkpoint_holds_is_what_later_releases_must_understand(append, stream, tmp_path):
    append(0, 1)
    append(1, 2)
    stream(maxFilesPerTrigger=1)
    texts = (tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()
    offset = json.loads(texts[-1])
    assert offset.pop("table_id")
    assert offset == {"version": 1, "index": 1, "is_snapshot": True}
