"""Which owners are notified of a conflict, and with what text."""

import asyncio
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG, BaseNotifier

from airflow_delta.core.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    InvalidStatementError,
    SchemaMismatchError,
)
from airflow_delta.observe.notifications import DeltaConflictNotifier
from tests.airflow_versions import AIRFLOW

RUN = {"dag_id": "daily", "task_id": "load", "run_id": "r1"}
CONFLICT = ConcurrentAppendError(
    table="s3://lake/flights",
    read_version=4,
    winning_version=5,
    winner={"operation": "WRITE", "job": {"jobName": "daily.load", "jobRunId": "r1"}, "airflowDelta": RUN},
    path="f.parquet",
    partition={"day": "2013-01-01"},
)


def context(error=CONFLICT, try_number=1):
    ti = SimpleNamespace(dag_id="d", task_id="t", run_id="r2", try_number=try_number)
    return {"exception": error, "ti": ti, "dag": None}


class Recorder(BaseNotifier):
    """Any other notifier, such as that of Slack: it renders its text in place."""

    template_fields = ("text",)

    def __init__(self, said, text):
        super().__init__()
        self.said, self.text = said, text

    def notify(self, context):
        self.said.append(self.text)


def test_a_notifier_is_called_with_a_conflict_and_renders_its_own_text():
    said = []
    text = "{{ delta_conflict.winning_run.dag_id }} won {{ delta_conflict.partition.day }} of {{ delta_conflict.table }}"
    notifier = DeltaConflictNotifier(then=Recorder(said, text))
    notifier(context())
    notifier(context(ConcurrentDeleteReadError(table="s3://lake/other", read_version=1, winning_version=2, path="g")))
    assert said == ["daily won 2013-01-01 of s3://lake/flights", " won  of s3://lake/other"]


def test_a_function_gets_the_report_and_a_text_that_can_be_sent_as_it_is():
    seen = []
    DeltaConflictNotifier(then=seen.append)(context())
    report = seen[0]["delta_conflict"]
    assert (report["code"], report["winning_version"], report["winning_operation"]) == ("DELTA_CONCURRENT_APPEND", 5, "WRITE")
    assert (report["winning_run"], report["path"], report["partition"]) == (RUN, "f.parquet", {"day": "2013-01-01"})
    assert report["message"].startswith("d.t, run r2, try 1: [DELTA_CONCURRENT_APPEND] version 5 of s3://lake/flights")
    assert "made by daily.load, run r1" in report["message"]
    assert seen[0]["ti"].task_id == "t"


@pytest.mark.parametrize("error", [RuntimeError("x"), None, "a text", SchemaMismatchError(table="t", differences=())])
def test_what_is_not_a_conflict_is_not_notified(error):
    seen = []
    DeltaConflictNotifier(then=seen.append, message="{{ delta_conflict.table.upper() }}")(context(error))
    assert seen == []


@pytest.mark.parametrize(
    ("filters", "is_notified"),
    [
        ({"only": ConcurrentAppendError}, True),
        ({"only": ConcurrentDeleteReadError}, False),
        ({"only": "DELTA_CONCURRENT_APPEND"}, True),
        ({"only": ["DELTA_CONCURRENT_WRITE", ConcurrentDeleteReadError]}, False),
        ({"tables": "flights"}, True),
        ({"tables": "light*"}, False),
        ({"tables": ["s3://other/*", "s3://lake/*"]}, True),
        ({"tables": "s3://lake/flights"}, True),
        ({"tables": "{{ ti.dag_id }}/*"}, False),
        ({"min_try": 2}, False),
        ({"min_try": 1}, True),
    ],
)
def test_filters_by_error_table_and_try(filters, is_notified):
    seen = []
    DeltaConflictNotifier(then=[seen.append], **filters)(context())
    assert bool(seen) is is_notified


@pytest.mark.parametrize("only", ["DELTA_CONCURRENT_APEND", "ConcurrentAppendError", ValueError, ["DELTA_CONCURRENT_WRITE", 1]])
def test_a_filter_that_no_error_can_pass_is_refused_when_the_dag_is_parsed(only):
    with pytest.raises(InvalidStatementError, match="only must hold errors"):
        DeltaConflictNotifier(then=print, only=only)


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        ({"only": []}, "only must not be empty"),
        ({"only": None}, "only must be a list, found None"),
        ({"message": None}, "message must be a text, found None"),
        ({"message": " "}, "message must be a text with something in it"),
    ],
)
def test_a_filter_that_is_empty_and_a_message_that_says_nothing_are_refused_when_the_dag_is_parsed(given, detail):
    with pytest.raises(InvalidStatementError, match=detail):
        DeltaConflictNotifier(then=print, **given)


def test_filters_may_be_sets_because_one_of_their_members_is_enough():
    notifier = DeltaConflictNotifier(then=print, only={"DELTA_CONCURRENT_WRITE"}, tables={"flights"})
    assert (notifier.only, notifier.tables) == (
        DeltaConflictNotifier(then=print, only="DELTA_CONCURRENT_WRITE").only,
        ("flights",),
    )


@pytest.mark.parametrize("then", ["slack", None, [None], [], [print, "slack"]])
def test_what_cannot_be_notified_is_refused_when_the_dag_is_parsed(then):
    with pytest.raises(InvalidStatementError, match="then must be a notifier"):
        DeltaConflictNotifier(then=then)


@pytest.mark.parametrize(
    ("tables", "detail"), [(5, "must be a list, found 5"), ([None], "each of tables must be a text"), ([], "empty")]
)
def test_tables_that_are_no_patterns_are_refused_when_the_dag_is_parsed(tables, detail):
    with pytest.raises(InvalidStatementError, match=detail):
        DeltaConflictNotifier(then=print, tables=tables)


def test_a_try_that_is_no_number_is_refused_when_the_dag_is_parsed_and_not_when_the_alert_is_due():
    with pytest.raises(InvalidStatementError, match="min_try must be"):
        DeltaConflictNotifier(then=print, min_try="2")


@pytest.mark.parametrize("code", ["DELTA_DRIVER_LOST", "DELTA_SPARK_TARGET", "DELTA_COMMITS_CLEANED_UP"])
def test_a_filter_may_name_an_error_of_any_room(code):
    assert DeltaConflictNotifier(then=print, only=code).only == (code,)


def test_one_that_fails_stops_no_other_notifier():
    seen = []

    def fail(context):
        raise ConnectionError("no network")

    with pytest.raises(ExceptionGroup) as caught:
        DeltaConflictNotifier(then=[fail, seen.append]).notify(context())
    assert [type(exception) for exception in caught.value.exceptions] == [ConnectionError]
    assert len(seen) == 1


@pytest.mark.skipif(AIRFLOW == (3, 0), reason="Airflow 3.0 awaits no notifiers")
def test_it_can_be_awaited():
    seen = []

    async def run():
        await DeltaConflictNotifier(then=seen.append, context=context())

    asyncio.run(run())
    assert seen[0]["delta_conflict"]["message"].startswith("d.t, run r2")


def test_a_message_of_a_dag_with_native_templates_is_a_text():
    seen = []
    with DAG("d", schedule=None, render_template_as_native_obj=True) as dag:
        pass
    notifier = DeltaConflictNotifier(then=seen.append, message="{{ delta_conflict.read_version }}", tables="{{ 'flights' }}")
    notifier(context() | {"dag": dag})
    assert [extended["delta_conflict"]["message"] for extended in seen] == ["4"]
