"""A table that is dropped and made anew while a sensor waits for it: its commits come after what the sensor has seen."""

import pytest

from airflow_delta.sensors import DeltaCommitSensor
from airflow_delta.watch.waits import CommitWait, wait_of


def sensor(table, **arguments):
    return DeltaCommitSensor(task_id="wait", table=str(table.root), **arguments)


def poke(sensor, context):
    return sensor.poke(context).xcom_value


@pytest.mark.parametrize("condition", [{}, {"operations": "MERGE"}], ids=["any", "filtered"])
def test_a_first_poke_is_followed_by_the_commits_of_a_table_that_is_made_anew(table, context, monkeypatch, condition):
    monkeypatch.setattr("airflow_delta.watch.commit_watch.LISTED_EVERY", 3)
    for _ in range(5):
        table.write()
    wait = {"since": "first_poke", **condition}
    in_one_process = sensor(table, **wait)
    assert (poke(in_one_process, context), poke(sensor(table, **wait), context)) == (None, None)
    table.drop()
    assert poke(sensor(table, **wait), context) is None
    table.create(table_id="another")
    merged = table.write(operation="MERGE")
    assert poke(sensor(table, **wait), context) == merged
    assert [poke(in_one_process, context) for _ in range(2)] == [None, merged]


def test_a_version_that_a_user_names_is_waited_for_in_a_table_that_is_made_anew(table, context):
    for _ in range(5):
        table.write()
    table.drop()
    table.create(table_id="another")
    assert poke(sensor(table, after_version=3), context) is None
    for _ in range(4):
        table.write()
    assert poke(sensor(table, after_version=3), context) == 4


def test_a_triggerer_is_given_that_a_wait_is_since_a_poke():
    wait = CommitWait(after=3, is_since_poke=True)
    assert wait_of(wait.to_json()) == wait
    assert "is_since_poke" not in CommitWait(after=3).to_json()
