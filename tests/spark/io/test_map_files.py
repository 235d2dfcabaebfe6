"""Files made into rows by Python tasks: each by one task, and Spark knows about how many bytes come out."""

import pickle
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_delta.spark.io import map_files as module
from airflow_delta.spark.io.map_files import map_files
from tests.spark.needs import looks_into_the_jvm


class Paths:
    """Gives the paths of files with the task that got them."""

    def __init__(self, shares):
        self.shares = shares

    def __call__(self, batches):
        for files in self.shares.of(batches):
            yield pa.RecordBatch.from_pydict({"path": files["path"].to_pylist(), "beside": [len(files)] * len(files)})


def mapped(spark, tasks, *, size=0):
    files = pa.table({"path": [f"file-{number}" for number in range(len(tasks))]})
    return map_files(spark, files, np.array(tasks), Paths, "path string, beside long", size=size)


def estimated_bytes(rows):
    return int(rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())


def by_task(rows):
    return [[row.path for row in task] for task in rows.rdd.glom().collect()]


@looks_into_the_jvm
def test_each_task_has_its_files_in_their_order(spark):
    expected = [["file-0"], ["file-1", "file-2", "file-3"], ["file-4"]]
    for size in (0, 100_000):
        assert by_task(mapped(spark, [0, 1, 1, 1, 2], size=size)) == expected


@looks_into_the_jvm
@pytest.mark.parametrize("size", [1_000, 36_000_000, 10**12])
def test_spark_takes_the_rows_for_as_large_as_they_are_up_to_a_gibibyte(spark, size):
    known = min(size, 1 << 30)
    assert known / 1.5 <= estimated_bytes(mapped(spark, [0, 0, 1, 2], size=size)) <= known * 1.5


@looks_into_the_jvm
@pytest.mark.parametrize(
    ("threshold", "size", "known"),
    [("3g", 10**12, 6 << 30), ("3221225472", 4 << 30, 4 << 30), ("-1", 10**12, 1 << 30), ("900tb", 10**13, 16 << 30)],
)
def test_rows_larger_than_a_threshold_of_the_session_are_known_to_be_so(spark, threshold, size, known):
    session = spark.newSession()
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", threshold)
    assert known / 1.42 <= estimated_bytes(mapped(session, [0, 0, 1, 2], size=size)) <= known * 1.42


@looks_into_the_jvm
def test_files_that_are_too_many_for_one_function_travel_in_several(spark, monkeypatch):
    monkeypatch.setattr(module, "_FUNCTION_BYTES", 2_000)
    made = []
    tasks = [number // 20 for number in range(400)]

    def worker(shares):
        made.append(shares)
        return Paths(shares)

    files = pa.table({"path": [f"file-{np.random.default_rng(number).bytes(8).hex()}" for number in range(400)]})
    rows = map_files(spark, files, np.array(tasks), worker, "path string, beside long", size=500_000)

    assert len(made) > 2
    assert max(len(pickle.dumps(shares)) for shares in made) < 3_000
    assert [row.path for row in rows.collect()] == files["path"].to_pylist()
    assert {row.beside for row in rows.collect()} == {20}
    assert 500_000 / 2 <= estimated_bytes(rows) <= 500_000 * 2


def test_no_function_is_larger_than_eight_mebibytes_however_many_files_there_are():
    names = pa.array(np.random.default_rng(1).integers(0, 1 << 62, 800_000)).cast(pa.string())
    files = pa.table({"path": pc.binary_join_element_wise(names[:400_000], names[400_000:], "-")})
    tasks = np.arange(400_000) // 50
    bounds = module._bounds(files, tasks)
    sizes = [len(module._as_bytes(files[first:end], tasks[first:end])) for first, end in pairwise(bounds)]

    assert len(sizes) > 1
    assert max(sizes) <= 8 << 20
    assert all(tasks[bound] != tasks[bound - 1] for bound in bounds[1:-1])


@pytest.mark.parametrize("files", [1, 10_000, 400_000])
def test_copies_of_what_functions_share_fit_a_plan_of_spark_connect_however_many_files_there_are(monkeypatch, files):
    names = pa.array(np.random.default_rng(1).integers(0, 1 << 62, 2 * files)).cast(pa.string())
    table = pa.table({"path": pc.binary_join_element_wise(names[:files], names[files:], "-")})
    pieces = len(module._bounds(table, np.arange(files) // 50)) - 1
    monkeypatch.setattr(module, "is_connect", lambda _: True)
    shareable = module.shareable_bytes(None, table)

    assert 1 << 20 <= shareable <= (64 << 20) / pieces
    monkeypatch.setattr(module, "is_connect", lambda _: False)
    assert module.shareable_bytes(None, table) > 1 << 60
