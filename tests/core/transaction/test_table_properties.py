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
        ("interval +30 days", 30 * DAY),
        ("- 12 hours +2 days", 36 * HOUR),
        ("1 day -30 minutes", DAY - HOUR // 2),
        ("INTERVAL 0.5 seconds", 500),
        (".25 second", 250),
        ("+.25 second", 250),
        ("1. seconds", 1000),
        ("0.0000009 seconds", 0),
        ("1 year -12 months 2 weeks", 14 * DAY),
        ("3 days\t4 hours\n", 76 * HOUR),
        ("106751991 days", 106751991 * DAY),
        ("one week", None),
        ("3days", None),
        ("3 days, 4 hours", None),
        ("1.5 days", None),
        (". seconds", None),
        ("+ days", None),
        ("0.0000000001 seconds", None),
        ("-1 day", None),
        ("1 day -25 hours", None),
        ("106751992 days", None),
        ("INTERVAL '1' DAY", None),
        ("interval interval 1 day", None),
        ("intervals 1 day", None),
        (f"{'9' * 5000} weeks", None),
        ("interval", None),
        ("", None),
    ],
)
def test_intervals_are_read_as_spark_reads_them(text, milliseconds):
    assert properties.interval_milliseconds(text) == milliseconds


def test_absent_properties_have_the_defaults():
    assert properties.checkpoint_interval({}) == 10
    assert properties.deleted_file_retention({}) == 7 * DAY
    assert properties.log_retention({}) == 30 * DAY
    assert properties.transaction_retention({}) is None
    assert properties.protected_before({}) == 0
    assert properties.cleans_up_log({})
    assert not properties.is_append_only({})


@pytest.mark.parametrize("value", ["nonsense", "9" * 5000, ""])
def test_properties_that_cannot_be_read_protect_what_they_may_mean_to_protect(value):
    configuration = dict.fromkeys(KEYS, value)
    assert properties.checkpoint_interval(configuration) == 10
    assert properties.deleted_file_retention(configuration) == properties.FOREVER
    assert properties.log_retention(configuration) == properties.FOREVER
    assert properties.transaction_retention(configuration) is None
    assert properties.protected_before(configuration) == properties.FOREVER
    assert not properties.cleans_up_log(configuration)
    assert properties.is_append_only(configuration)


def test_properties_that_are_set_count():
    configuration = dict(zip(KEYS, ["3", "interval 2 days", "interval 1 hour", "True", "3 days", "7", "FALSE"], strict=True))
    assert properties.log_retention(configuration) == 3 * DAY
    assert properties.protected_before(configuration) == 7
    assert not properties.cleans_up_log(configuration)
    assert properties.checkpoint_interval(configuration) == 3
    assert properties.deleted_file_retention(configuration) == 2 * DAY
    assert properties.transaction_retention(configuration) == HOUR
    assert properties.is_append_only(configuration)


KEYS = (
    "delta.checkpointInterval",
    "delta.deletedFileRetentionDuration",
    "delta.setTransactionRetentionDuration",
    "delta.appendOnly",
    "delta.logRetentionDuration",
    "delta.requireCheckpointProtectionBeforeVersion",
    "delta.enableExpiredLogCleanup",
)
