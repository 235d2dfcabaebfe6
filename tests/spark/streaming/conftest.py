"""Streams that run to the end of what there is, batch by batch."""

import pytest

from airflow_delta.spark.streaming import read_stream


@pytest.fixture
def stream(spark, table, tmp_path):
    """Run a stream over all that is there now, and return the rows of each batch, by the batch's number."""

    def run(*, checkpoint="checkpoint", columns="*", **options):
        batches = {}

        def keep(frame, batch_id):
            batches[batch_id] = sorted(tuple(row) for row in frame.selectExpr(columns).collect())

        query = (
            read_stream(spark, table, **options)
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return batches

    return run
