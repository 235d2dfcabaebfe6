import json

import pytest

from airflow_delta.core.data_files.wide_bounds import with_wide_bounds


def test_the_bounds_stay_to_the_digit_and_are_called_wide():
    stats = (
        '{"numRecords":5,"minValues":{"d":1.10000000000000000001,"é":"\\"x"},"nullCount":{"tightBounds":0},"tightBounds":true}'
    )
    assert with_wide_bounds(stats, 5) == (
        '{"numRecords":5,"tightBounds":false,"minValues":{"d":1.10000000000000000001,"é":"\\"x"},"nullCount":{"tightBounds":0}}'
    )


@pytest.mark.parametrize("stats", [None, "", "no json", "[1]", "null", '{"a":', "[" * 100_000])
def test_what_cannot_be_read_leaves_the_number_of_rows(stats):
    assert json.loads(with_wide_bounds(stats, 7)) == {"numRecords": 7, "tightBounds": False}
