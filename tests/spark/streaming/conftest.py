"""Streams that run until all available data is processed, batch by batch."""

import pickle

import pytest

from airflow_delta.shipping.connect import with_code
from airflow_delta.spark.streaming import read_stream


@pytest.fixture
def batches_file(tmp_path):
    return tmp_path / "batches"


@pytest.fixture
def keep(batches_file):
    """A function for ``foreachBatch`` that stores the rows in a file: over Spark Connect it runs in a process of the server."""

    def append(frame, number, columns="*"):
        rows = sorted(tuple(row) for row in frame.selectExpr(columns).collect())
        with batches_file.open("ab") as file:
            pickle.dump((number, rows), file)

    return append


@pytest.fixture
def kept(batches_file):
    """Number and rows of each stored batch, in the order of the calls."""

    def read():
        found = []
        if batches_file.exists():
            with batches_file.open("rb") as file:
                while file.peek(1):
                    found.append(pickle.load(file))
        return found

    return read


@pytest.fixture
def stream(spark, table, tmp_path, keep, kept):
    """Run a stream over all data available now; returns the rows by batch number."""

    def run(*, checkpoint="checkpoint", columns="*", **options):
        before = len(kept())
        query = (
            read_stream(spark, table, **options)
            .writeStream.foreachBatch(with_code(lambda frame, number: keep(frame, number, columns)))
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return dict(kept()[before:])

    return run
