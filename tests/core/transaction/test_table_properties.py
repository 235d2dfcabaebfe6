"""Table properties as users and Spark write them."""

import pytest

from airflow_delta.core.transaction import table_properties as properties

HOUR, DAY = 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("interval 1 week", 7 * DAY),
        ("interval 30 days", 30 * DAY),
        ("INTERVAL 1 day 12 hours", 36 * HOUR),
        ("168 hours", 7 * DAY),
        ("interval 0 seconds", 0),
        ("interval 90 minutes", 90 * 60_000),
        ("interval 1500 milliseconds", 1500),
        ("interval 1000 microseconds", 1),
        ("interval 1 month", None),
        ("one week", None),
        (f"{'9' * 5000} weeks", None),
        ("interval", None),
        ("", None),
    ],
)
def test_intervals_are_read_as_spark_reads_them(text, milliseconds):
    assert properties.interval_milliseconds(text) == milliseconds


def test_absent_or_unreadable_properties_have_the_defaults():
    for configuration in ({}, dict.fromkeys(KEYS, "nonsense"), dict.fromkeys(KEYS, "9" * 5000)):
        assert properties.checkpoint_interval(configuration) == 10
        assert properties.deleted_file_retention(configuration) == 7 * DAY
        assert properties.transaction_retention(configuration) is None
        assert not properties.is_append_only(configuration)


def test_properties_that_are_set_count():
    configuration = dict(zip(KEYS, ["3", "interval 2 days", "interval 1 hour", "True"], strict=True))
    assert properties.checkpoint_interval(configuration) == 3
    assert properties.deleted_file_retention(configuration) == 2 * DAY
    assert properties.transaction_retention(configuration) == HOUR
    assert properties.is_append_only(configuration)


KEYS = (
    "delta.checkpointInterval",
    "delta.deletedFileRetentionDuration",
    "delta.setTransactionRetentionDuration",
    "delta.appendOnly",
)
