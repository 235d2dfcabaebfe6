"""How many Python tasks share a number of files."""

import pyarrow as pa
import pytest

from airflow_delta.spark.worker_values import task_count

pytestmark = pytest.mark.spark  # of two cores

MIB = 1 << 20


@pytest.mark.parametrize(
    ("files", "mib_each", "share", "tasks"),
    [
        (0, 0, 1, 1),
        (1, 1_000, 1, 1),
        (16, 2, 1, 2),
        (16, 18, 1, 8),
        (16, 18, 1 / 8, 2),
        (16, 0, 0, 2),
        (400, 64, 1, 400),
        (20_000, 0, 1, 312),
    ],
    ids=["none", "one", "little", "more", "a part of more", "nothing of them", "much", "many"],
)
def test_tasks_are_one_for_each_core_unless_there_is_more_to_read_or_to_open(spark, files, mib_each, share, tasks):
    table = pa.table({"size": pa.array([mib_each * MIB] * files, pa.int64())})
    assert task_count(spark, table, share=share) == tasks
