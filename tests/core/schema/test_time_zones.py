"""Zones by the names of Spark's setting: what Java reads in them."""

import datetime as dt

import pytest

from airflow_delta.core.schema.time_zones import zone_named

SUMMER = dt.datetime(2024, 7, 1, 12)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("name", "hours"),
    [
        *dict.fromkeys(["UTC", "Z", "UT", "GMT", "GMT0", "+00:00", "Etc/UTC"], 0).items(),
        *dict.fromkeys(["+02:00", "+2", "+02", "+2:00", "+0200", "GMT+2", "UTC+02:00", "UT+2", "Etc/GMT-2"], 2).items(),
        ("-05:30", -5.5), ("UTC-5:3", -5.05), ("EST", -5), ("America/New_York", -4), ("Asia/Kolkata", 5.5),
    ],
)  # fmt: skip
def test_a_zone_of_spark_has_its_offset(name, hours):
    assert SUMMER.replace(tzinfo=zone_named(name)).utcoffset() == dt.timedelta(hours=hours)


@pytest.mark.parametrize("name", ["PST", "Nowhere/Land", "America", "", "../UTC", "+25:00", "2", "GMT+"])
def test_another_name_is_no_zone(name):
    with pytest.raises(ValueError, match=r"zone|keys|offset"):
        zone_named(name)
