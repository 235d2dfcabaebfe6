"""Our code, sent to Python workers when a plan first needs it."""

import pytest

from airflow_delta.core.statements import PythonSource
from airflow_delta.spark.statement.sources import open_source
from airflow_delta.spark.worker_code import map_in_arrow, send_code, send_when_needed


def rows_of(spark):
    return spark.range(3)


@pytest.fixture
def sent(spark):
    """Takes note of each time that the code is sent."""
    times = []
    send_when_needed(spark, lambda _: times.append("sent"))
    yield times
    send_code(spark)


def test_code_is_sent_once_before_workers_first_need_it(spark, sent):
    spark.range(3).count()
    assert sent == []

    mapped = map_in_arrow(spark.range(3), lambda batches: batches, "id BIGINT")
    map_in_arrow(spark.range(3), lambda batches: batches, "id BIGINT")

    assert sent == ["sent"]
    assert sorted(row.id for row in mapped.collect()) == [0, 1, 2]


def test_a_function_of_a_user_finds_our_code_in_workers(spark, sent):
    open_source(spark, PythonSource(f"{__name__}:rows_of"))
    assert sent == ["sent"]


def test_what_could_not_be_sent_is_sent_the_next_time(spark):
    times = []

    def send(_):
        times.append(len(times))
        if len(times) == 1:
            raise ConnectionError("the server is away")

    send_when_needed(spark, send)
    with pytest.raises(ConnectionError):
        send_code(spark)
    send_code(spark)
    send_code(spark)
    assert times == [0, 1]


def test_a_session_that_has_our_code_is_sent_none(spark):
    send_code(spark)
