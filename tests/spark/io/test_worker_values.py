"""Worker set-up and error handling around our functions."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_delta.spark.io.worker_values import with_typed_errors


def _frozen_objects(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many objects the garbage collector passes over after a task of ours."""
    list(with_typed_errors(batches))
    yield pa.record_batch({"frozen": [gc.get_freeze_count()]})


@pytest.mark.classic(reason="the workers import this module, which a server does not have")
def test_a_worker_collects_garbage_among_modules_no_more_after_its_first_task(spark: SparkSession) -> None:
    [row] = spark.range(0, 1, 1, 1).mapInArrow(_frozen_objects, "frozen long").collect()
    assert row.frozen > 10_000


def test_a_driver_is_left_its_garbage_collector() -> None:
    before = gc.get_freeze_count()
    assert list(with_typed_errors(iter([]))) == []
    assert gc.get_freeze_count() == before
