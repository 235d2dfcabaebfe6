"""Identity settings in a column's metadata, which are untrusted."""

import pytest

from airflow_delta.core.schema import StructField
from airflow_delta.core.schema.data_types import LONG
from airflow_delta.spark.constraints.column_rules import Identity
from airflow_delta.spark.errors import TableRuleUnreadableError


def column(**numbers):
    return StructField("id", LONG, metadata={f"delta.identity.{name}": number for name, number in numbers.items()})


def test_the_next_number_lies_beyond_the_high_water_mark_on_the_grid_of_the_start():
    assert Identity.of(column(start=3, step=10, highWaterMark=14)).next == 23
    assert Identity.of(column(start=3, step=-10, highWaterMark=-7)).next == -17
    assert Identity.of(column(start=3)).next == 3
    assert Identity.of(StructField("id", LONG)) is None


@pytest.mark.parametrize(
    "numbers",
    [
        {"start": "7"},
        {"start": "9" * 5_000},
        {"start": 1, "step": 0},
        {"start": 1, "step": True},
        {"start": 1, "step": 1 << 63},
        {"start": 1, "highWaterMark": [1]},
    ],
)
def test_numbers_that_are_not_whole_or_not_of_64_bits_are_a_typed_error(numbers):
    with pytest.raises(TableRuleUnreadableError, match="IDENTITY of id"):
        Identity.of(column(**numbers))
