"""Waiting for a commit of a time: after a moment, or in an interval, by the table's own times."""

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from functools import partial

import pendulum
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException, TaskDeferred
from airflow.sdk import DAG

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.hooks.airflow_features import HAS_RETRY_POLICIES
from airflow_delta.sensors import DeltaCommitSensor
from airflow_delta.triggers.commit import DeltaCommitWaitTrigger
from airflow_delta.watch.errors import CommitsCleanedUpError, CommitWindowPassedError
from airflow_delta.watch.waits import CommitWait
from tests.core.builders import metadata, protocol
from tests.sensors.conftest import Store
from tests.watched_table import WatchedTable

DAY = datetime(2026, 1, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
INTERVAL = (DAY.isoformat(), (DAY + 24 * HOUR).isoformat())


class TimedTable(WatchedTable):
    """``at(time, ...)`` says when a version was committed: in its file's time, and in the commit where it carries times."""

    def __init__(self, root, *, carries_times):
        super().__init__(root)
        self.carries_times = carries_times
        self.at(DAY - 10 * HOUR, self.create)

    def create(self, **info):
        if not self.carries_times:
            return super().create()
        definition = metadata(partition_columns=["day"], **{"delta.enableInCommitTimestamps": "true"})
        return self.commit("CREATE TABLE", protocol(), definition, **info)

    def at(self, time, make=None, **commit):
        milliseconds = round(1_000 * time.timestamp())
        version = (make or self.write)(**commit, **({"inCommitTimestamp": milliseconds} if self.carries_times else {}))
        file_time = (DAY if self.carries_times else time).timestamp()  # after a copy all files are of one time
        os.utime(self.root / commit_path(version), (file_time, file_time))
        return version


@pytest.fixture(params=[False, True], ids=["file times", "in-commit times"])
def table(request, tmp_path):
    return TimedTable(tmp_path / "table", carries_times=request.param)


def sensor(table, **arguments):
    return DeltaCommitSensor(task_id="wait", table=str(table.root), **arguments)


def poke(waiting, context):
    return waiting.poke(context).xcom_value


def test_a_commit_before_the_first_look_is_found_by_its_time(table, context):
    """The event that ``since="first_poke"`` misses."""
    wait = {"after_timestamp": DAY.isoformat()}
    assert poke(sensor(table, **wait), context) is None
    table.at(DAY)
    assert poke(sensor(table, **wait), context) is None  # not later than the time itself
    table.at(DAY + HOUR)
    assert poke(sensor(table, **wait), context) == 2
    assert poke(sensor(table, since="first_poke"), {**context, "task_state_store": Store()}) is None
    table.at(DAY + 2 * HOUR)
    assert poke(sensor(table, **wait), context) == 3  # the latest


@pytest.mark.parametrize(
    "time",
    [
        DAY.isoformat(),
        " 2026-01-02 ",
        "2026-01-02T00:00:00",
        "2026-01-02T01:00:00+01:00",
        DAY,
        DAY.replace(tzinfo=None),
        pendulum.datetime(2026, 1, 2),
        round(DAY.timestamp() * 1000),
        str(round(DAY.timestamp() * 1000)),
    ],
)
def test_a_time_without_a_zone_is_utc_in_every_form(tmp_path, time):
    waiting = DeltaCommitSensor(task_id="wait", table=str(tmp_path), after_timestamp=time)
    assert waiting.requested_wait().window.start == round(DAY.timestamp() * 1000) + 1


def test_a_commit_of_the_interval_is_the_last_one_in_it(table, context):
    table.at(DAY - HOUR)
    wait = {"during": INTERVAL}
    waiting = sensor(table, **wait)
    assert poke(waiting, context) is None
    assert table.at(DAY) == 2
    assert poke(waiting, context) == 2
    table.at(DAY + 23 * HOUR)
    table.at(DAY + 24 * HOUR)  # of the next one
    assert poke(sensor(table, **wait), context) == 3


@pytest.mark.parametrize("more", [{}, {"operations": "MERGE"}, {"min_rows": 5}], ids=["any", "operation", "rows"])
def test_when_the_interval_is_over_without_the_commit_the_task_fails(table, context, more):
    table.at(DAY - HOUR, rows=9, operation="MERGE")
    waiting = sensor(table, during=INTERVAL, **more)
    assert poke(waiting, context) is None
    if more:
        table.at(DAY + HOUR)
        assert poke(waiting, context) is None
    later = table.at(DAY + 25 * HOUR, rows=9, operation="MERGE")
    with pytest.raises(CommitWindowPassedError) as raised:
        poke(waiting, context)
    assert raised.value.later == later
    assert "from 2026-01-02 00:00:00.000 UTC to 2026-01-03 00:00:00.000 UTC" in str(raised.value)
    assert not raised.value.retryable


def test_other_conditions_hold_inside_the_time_only(table, context):
    table.at(DAY - HOUR, operation="MERGE")
    wait = {"after_timestamp": DAY.isoformat(), "operations": "MERGE"}
    waiting = sensor(table, **wait)
    assert poke(waiting, context) is None
    table.at(DAY + HOUR)
    assert poke(waiting, context) is None
    table.at(DAY + 2 * HOUR, operation="MERGE")
    table.at(DAY + 3 * HOUR, operation="MERGE")
    assert poke(waiting, context) == 3
    assert poke(sensor(table, **wait), context) == 3  # a reschedule goes on from its place
    assert poke(sensor(table, **wait), {**context, "task_state_store": Store()}) == 3


def test_rows_of_the_interval_are_counted_together(table, context):
    table.at(DAY - HOUR, rows=100)
    waiting = sensor(table, during=INTERVAL, min_rows=5)
    table.at(DAY, rows=2)
    assert poke(waiting, context) is None
    table.at(DAY + HOUR, rows=3)
    assert poke(waiting, context) == 3


@pytest.mark.parametrize(
    "wait",
    [{"after_timestamp": DAY}, {"during": INTERVAL}, {"after_timestamp": DAY, "operations": "MERGE"}, {"fresh_within": "2h"}],
)
def test_a_poke_that_finds_nothing_new_is_one_request(table, context, requests, wait):
    waiting = sensor(table, **wait)
    assert poke(waiting, context) is None
    for _ in range(3):
        requests.clear()
        assert poke(waiting, context) is None
        assert requests == [("exists", f"_delta_log/{1:020d}.json")]
    requests.clear()
    assert poke(sensor(table, **wait), context) is None  # rescheduled, in a new process
    assert [kind for kind, _ in requests] == ["list"]


def test_a_missing_table_is_waited_for(tmp_path, context):
    waiting = DeltaCommitSensor(task_id="wait", table=str(tmp_path / "table"), after_timestamp=DAY)
    assert poke(waiting, context) is None
    assert list(tmp_path.iterdir()) == []
    TimedTable(tmp_path / "table", carries_times=False).at(DAY + HOUR)
    assert poke(waiting, context) == 1


def test_what_was_cleaned_up_in_the_time_is_not_taken_for_missing(tmp_path, context):
    table = TimedTable(tmp_path / "table", carries_times=False)
    for hour in range(1, 5):
        table.at(DAY + hour * HOUR)
    table.clean_up(3)
    assert poke(sensor(table, after_timestamp=DAY), context) == 4
    with pytest.raises(CommitsCleanedUpError):
        poke(sensor(table, after_timestamp=DAY, operations="MERGE"), context)


@pytest.mark.parametrize("wait", [{"after_timestamp": DAY}, {"during": INTERVAL}, {"fresh_within": "2h"}])
def test_where_only_a_checkpoint_is_left_the_next_commit_is_waited_for(tmp_path, context, wait):
    table = TimedTable(tmp_path / "table", carries_times=False)
    table.at(DAY + HOUR)
    table.clean_up(1)
    table.store.delete([commit_path(1)])
    waiting = sensor(table, **wait)
    assert poke(waiting, context) is None
    assert poke(waiting, context) is None
    version = table.at(datetime.now(tz=UTC) if "fresh_within" in wait else DAY + 2 * HOUR)
    assert (version, poke(waiting, context)) == (2, 2)


def first_payload(trigger_arguments):
    async def first():
        return (await anext(DeltaCommitWaitTrigger(**json.loads(json.dumps(trigger_arguments))).run())).payload

    return asyncio.run(asyncio.wait_for(first(), timeout=120))


@pytest.mark.parametrize("more", [{}, {"operations": "MERGE"}])
def test_the_triggerer_waits_for_the_time_too(table, context, more):
    with pytest.raises(TaskDeferred) as deferred:
        sensor(table, during=INTERVAL, deferrable="true", poke_interval=0.1, **more).execute(context)
    arguments = deferred.value.trigger.serialize()[1]
    table.at(DAY - HOUR, operation="MERGE")
    table.at(DAY + HOUR, operation="MERGE")
    assert first_payload(arguments) == {"version": 2}


def test_the_triggerer_ends_a_wait_whose_time_has_passed(table, context):
    with pytest.raises(TaskDeferred) as deferred:
        sensor(table, during=INTERVAL, deferrable=True, poke_interval=0.1).execute(context)
    table.at(DAY + 30 * HOUR)
    waiting = sensor(table, during=INTERVAL)
    with pytest.raises(CommitWindowPassedError):
        waiting.execute_complete(context, first_payload(deferred.value.trigger.serialize()[1]))


@pytest.mark.parametrize(
    ("flag", "ending"), [("soft_fail", CommitWindowPassedError), ("never_fail", AirflowSkipException)], ids=str
)
@pytest.mark.parametrize("how", ["poked", "deferrable, at the first poke", "in the triggerer"])
def test_soft_fail_is_for_the_timeout_and_never_fail_for_errors_too_wherever_the_sensor_waits(
    tmp_path, context, flag, ending, how
):
    table = TimedTable(tmp_path / "table", carries_times=False)
    table.at(DAY + 30 * HOUR)
    waiting = sensor(table, during=INTERVAL, deferrable=how != "poked", **{flag: True})
    event = {"error": CommitWindowPassedError(table="t", start=1, end=2, later=3).to_json(), "try_number": 1}
    resume = partial(waiting.resume_execution, "execute_complete", {"event": event})
    with pytest.raises(ending):
        (resume if how == "in the triggerer" else waiting.execute)(context)


def test_an_error_in_the_triggerer_that_a_retry_cannot_help_ends_the_task_at_once_before_there_are_policies(tmp_path, context):
    waiting = DeltaCommitSensor(task_id="wait", table=str(tmp_path), during=INTERVAL, deferrable=True, soft_fail=True)
    event = {"error": CommitWindowPassedError(table="t", start=1, end=2, later=3).to_json(), "try_number": 1}
    with pytest.raises(CommitWindowPassedError) as raised:
        waiting.resume_execution("execute_complete", {"event": event}, context)
    assert isinstance(raised.value, AirflowFailException) is not HAS_RETRY_POLICIES


def test_a_wait_of_a_trigger_from_before_there_were_times_is_understood():
    document = CommitWait(after=3).to_json()
    assert set(document) == {"after", "wanted", "min_rows", "rows"}
    assert CommitWait.from_json(document) == CommitWait(after=3)


@pytest.mark.parametrize("empty", ["", "None", None])
@pytest.mark.parametrize("name", ["after_timestamp", "during"])
def test_a_run_without_a_data_interval_is_refused_with_the_way_out(tmp_path, context, name, empty):
    templates = {
        "after_timestamp": "{{ data_interval_start }}",
        "during": ("{{ data_interval_start }}", "{{ data_interval_end }}"),
    }
    waiting = DeltaCommitSensor(task_id="wait", table=str(tmp_path), **{name: templates[name]})
    setattr(waiting, name, empty if name == "after_timestamp" else (empty, empty))  # as Airflow sets what has rendered
    with pytest.raises(InvalidStatementError, match="a DAG run without a logical date has no data interval"):
        poke(waiting, context)


def test_an_interval_of_a_moment_is_refused_with_the_way_out(tmp_path, context):
    waiting = DeltaCommitSensor(task_id="wait", table=str(tmp_path), during=("{{ a }}", "{{ b }}"))
    waiting.during = (DAY.isoformat(), DAY.isoformat())
    with pytest.raises(InvalidStatementError, match="use after_timestamp"):
        poke(waiting, context)


@pytest.mark.parametrize("native", [False, True], ids=["text", "native"])
def test_a_dag_waits_for_a_commit_of_its_data_interval(tmp_path, run_dag, xcom, native):
    table = TimedTable(tmp_path / "table", carries_times=False)
    table.at(DAY + HOUR)
    with DAG(
        f"times_{native}", schedule=None, start_date=pendulum.datetime(2026, 1, 1), render_template_as_native_obj=native
    ) as dag:
        wait = {"table": str(table.root), "poke_interval": 0.1, "timeout": 20}
        DeltaCommitSensor(task_id="after", after_timestamp="{{ data_interval_start }}", **wait)
        end = "{{ data_interval_start + macros.timedelta(days=1) }}"
        DeltaCommitSensor(task_id="during", during=["{{ data_interval_start }}", end], **wait)
    run = run_dag(dag, logical_date=pendulum.instance(DAY))
    assert run.state == "success"
    assert (xcom(run, "after"), xcom(run, "during")) == (1, 1)
