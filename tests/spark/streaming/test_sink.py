"""Tables at the end of a stream: each batch once, whatever dies between a commit and Spark's checkpoint."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import StreamingQueryException

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import MatchedUpdate, NotMatchedInsert
from airflow_delta.shipping.connect import with_code
from airflow_delta.spark.jvm import is_connect
from airflow_delta.spark.streaming import DeltaMergeSink, DeltaSink
from tests.spark.needs import needs_stream_source


@pytest.fixture
def source(tmp_path):
    """A folder of Parquet files that Spark streams, whichever its version: those of a table, one for each commit."""
    return str(tmp_path / "source")


@pytest.fixture
def feed(source):
    def run(ids, value="a"):
        rows = pa.table({"id": pa.array(ids, pa.int64()), "v": [value] * len(ids)})
        write_deltalake(source, rows, mode="append")

    return run


def files_of(spark, source):
    return spark.readStream.schema("id bigint, v string").option("maxFilesPerTrigger", 1).parquet(source)


@pytest.fixture
def start(spark, source, tmp_path):
    """Begin to stream all that is in the source into the sink, one file a batch."""

    def run(sink, *, checkpoint="checkpoint"):
        writer = files_of(spark, source).writeStream.foreachBatch(with_code(sink))
        return writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True).start()

    return run


@pytest.fixture
def drain(start):
    """Stream all that is in the source into the sink, and return the query's id."""

    def run(sink, **options):
        query = start(sink, **options)
        query.awaitTermination()
        return query.id

    return run


def ids(table):
    return sorted(DeltaTable(table).to_pyarrow_table()["id"].to_pylist())


def test_each_batch_is_one_commit_that_names_the_query(table, feed, drain, reference_rows):
    feed([0, 1])
    drain(DeltaSink(table, partition_by=("v",)))
    feed([2], "b")
    feed([3])
    query = drain(DeltaSink(table))
    assert reference_rows() == [(0, "a"), (1, "a"), (2, "b"), (3, "a")]
    snapshot = DeltaLog.for_table(table).snapshot()
    assert {app: transaction.version for app, transaction in snapshot.transactions.items()} == {query: 2}
    assert (snapshot.version, snapshot.partition_columns) == (2, ("v",))


def test_a_batch_that_failed_behind_its_commit_is_not_written_again(table, feed, drain):
    feed([0, 1])
    sink = DeltaSink(table)

    def failing(frame, batch_id):
        sink(frame, batch_id)
        raise RuntimeError("gone before the checkpoint")

    with pytest.raises(StreamingQueryException, match="gone before the checkpoint"):
        drain(failing)
    drain(sink)
    assert ids(table) == [0, 1]
    assert DeltaLog.for_table(table).snapshot().version == 0
    feed([2])
    drain(sink)
    assert ids(table) == [0, 1, 2]


def test_a_process_of_the_server_that_is_killed_behind_its_commit_doubles_nothing(spark, table, feed, drain):
    if not is_connect(spark):
        pytest.skip("the function runs in this process; the slow tests kill one of their own")
    feed([0, 1])
    sink = DeltaSink(table)

    def killed(frame, batch_id):
        sink(frame, batch_id)
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(StreamingQueryException, match="crashed"):
        drain(killed)
    drain(sink)
    assert (ids(table), DeltaLog.for_table(table).snapshot().version) == ([0, 1], 0)


def test_queries_that_run_at_once_write_each_their_own_rows_under_their_own_names(table, feed, start):
    for first in (0, 2, 4):
        feed([first, first + 1])
    places = {sign: f"{table}-{sign}" for sign in (1, -1)}

    def signed(sign):
        sink = DeltaSink(places[sign], query_id=f"q{sign}")
        return lambda frame, batch_id: sink(frame.selectExpr(f"id * {sign} AS id"), batch_id)

    for query in [start(signed(sign), checkpoint=f"checkpoint{sign}") for sign in places]:
        query.awaitTermination()
    for sign, place in places.items():
        assert ids(place) == sorted(sign * number for number in range(6))
        assert DeltaLog.for_table(place).snapshot().transactions[f"q{sign}"].version == 2


def test_over_spark_connect_a_query_beside_another_must_have_a_name(spark, table, source, feed, drain, tmp_path):
    feed([0, 1])
    other = files_of(spark, source).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "other")).start()
    try:
        if is_connect(spark):
            with pytest.raises(StreamingQueryException, match=r"2 queries run in this session.*pass query_id"):
                drain(DeltaSink(table))
            assert not Path(table).exists()
        drain(DeltaSink(table, query_id="events"))
    finally:
        other.stop()
    assert ids(table) == [0, 1]


def test_a_new_checkpoint_is_a_new_query_unless_it_has_a_name(table, feed, drain):
    feed([0])
    drain(DeltaSink(table))
    drain(DeltaSink(table), checkpoint="second")
    assert ids(table) == [0, 0]
    drain(DeltaSink(table, query_id="events"), checkpoint="third")
    drain(DeltaSink(table, query_id="events"), checkpoint="fourth")
    assert ids(table) == [0, 0, 0]


def test_a_merged_batch_is_merged_once(table, feed, drain):
    clauses = (MatchedUpdate(assignments={"n": "target.n + 1"}), NotMatchedInsert(assignments={"id": "source.id", "n": "1"}))
    write_deltalake(table, pa.table({"id": pa.array([0], pa.int64()), "n": pa.array([1], pa.int64())}))
    sink = DeltaMergeSink(table, on="target.id = source.id", clauses=clauses)
    feed([0, 1])

    def failing(frame, batch_id):
        sink(frame, batch_id)
        raise RuntimeError("gone before the checkpoint")

    with pytest.raises(StreamingQueryException):
        drain(failing)
    drain(sink)
    feed([1, 2])
    query = drain(sink)
    rows = DeltaTable(table).to_pyarrow_table().sort_by("id").to_pydict()
    assert rows == {"id": [0, 1, 2], "n": [2, 2, 1]}
    assert DeltaLog.for_table(table).snapshot().transactions[query].version == 1


def test_a_merge_that_changes_nothing_is_noted_too(spark, table):
    write_deltalake(table, pa.table({"id": pa.array([0], pa.int64())}))
    sink = DeltaMergeSink(table, on="target.id = source.id", clauses=(MatchedUpdate(),), query_id="q")
    rows = spark.range(5, 6)
    assert sink(rows, 0).committed
    write_deltalake(table, pa.table({"id": pa.array([5], pa.int64())}), mode="append")
    assert not sink(rows, 0).committed
    assert ids(table) == [0, 5]


@pytest.mark.slow
def test_the_whole_result_of_a_complete_query_replaces_the_last_one(spark, table, source, feed, tmp_path):
    feed([0, 1])
    for expected in ([("a", 2)], [("a", 2), ("b", 1)]):
        counts = files_of(spark, source).groupBy("v").count()
        writer = counts.writeStream.outputMode("complete").foreachBatch(with_code(DeltaSink(table, mode="overwrite")))
        writer.option("checkpointLocation", str(tmp_path / "counts")).trigger(availableNow=True).start().awaitTermination()
        found = DeltaTable(table).to_pyarrow_table().to_pylist()
        assert sorted((row["v"], row["count"]) for row in found) == expected
        feed([2], "b")


def test_a_sink_called_by_hand_needs_a_name_for_the_query(spark, table):
    with pytest.raises(InvalidStatementError, match="query_id"):
        DeltaSink(table)(spark.range(1), 0)
    assert DeltaSink(table, query_id="q")(spark.range(1), 0).version == 0
    again = DeltaSink(table, query_id="q")(spark.range(1), 0)
    assert (again.committed, ids(table)) == (False, [0])


@pytest.mark.slow
@pytest.mark.classic(reason="the example is that of a classic session: over Spark Connect, code goes with the function")
@needs_stream_source
def test_the_example_of_the_documentation_runs(spark, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[3] / "docs" / "scripts.md").read_text(), re.DOTALL)
    [example] = [block for block in blocks if "read_stream" in block]
    lake = str(tmp_path / "lake")
    orders = pa.table({"customer": ["a", "b", "a"], "n": pa.array([1, 2, 3], pa.int64())})
    write_deltalake(f"{lake}/orders", orders)
    write_deltalake(f"{lake}/customers", orders.slice(0, 1))
    exec(example.replace("/lake/", f"{lake}/"), {"spark": spark})
    assert len(DeltaTable(f"{lake}/copy").to_pyarrow_table()) == 3
    assert sorted(DeltaTable(f"{lake}/customers").to_pyarrow_table()["customer"].to_pylist()) == ["a", "b"]


KILLED = """
import os, signal, sys
from pyspark.sql import SparkSession
from airflow_delta.spark.streaming import {sink}

source, target, checkpoint = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
sink = {made}

def killed(frame, batch_id):
    sink(frame, batch_id)
    os.kill(os.getpid(), signal.SIGKILL)

files = spark.readStream.schema("id bigint, v string").option("maxFilesPerTrigger", 1).parquet(source)
stream = files.writeStream.foreachBatch(killed)
stream.option("checkpointLocation", checkpoint).start().awaitTermination()
"""


@pytest.mark.slow
@pytest.mark.classic(reason="starts JVMs")
@pytest.mark.parametrize("sink", [DeltaSink, DeltaMergeSink])
def test_a_driver_killed_between_commit_and_checkpoint_loses_and_doubles_nothing(table, source, feed, drain, tmp_path, sink):
    for first in (0, 2, 4):
        feed([first, first + 1])
    write_deltalake(table, pa.table({"id": pa.array([], pa.int64()), "v": pa.array([], pa.string())}))
    on = "" if sink is DeltaSink else ", on='target.id = source.id', clauses=(NotMatchedInsert(),)"
    made = f"{sink.__name__}(target{on})"
    program = KILLED.format(sink=sink.__name__, made=made)
    program = program.replace("import os,", "from airflow_delta.core.statements import NotMatchedInsert\nimport os,", 1)
    for turn in range(2):
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        arguments = [sys.executable, "-c", program, source, table, str(tmp_path / "checkpoint")]
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == -signal.SIGKILL, done.stderr
        # The second process meets the batch of the first one, which is in the table already.
        assert DeltaLog.for_table(table).snapshot().version == 1, turn
    options = {"on": "target.id = source.id", "clauses": (NotMatchedInsert(),)} if sink is DeltaMergeSink else {}
    drain(sink(table, **options))
    assert ids(table) == list(range(6))
    assert DeltaLog.for_table(table).snapshot().version == 3


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: DeltaSink("/t", mode="upsert"),
        lambda: DeltaSink("/t", mode="replace_where"),
        lambda: DeltaSink("/t", merge_schema="perhaps"),
        lambda: DeltaSink(None),
        lambda: DeltaMergeSink("/t", on="target.id = source.id", clauses=()),
    ],
)
def test_a_sink_that_no_batch_can_use_is_refused_when_it_is_made(wrong):
    with pytest.raises(InvalidStatementError):
        wrong()
