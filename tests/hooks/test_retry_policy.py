"""Only transient errors are retried, and tasks that conflicted once do not retry at the same moment."""

import json
import pickle
from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_delta.core.errors import (
    CommitAttemptsExhaustedError,
    ConcurrentAppendError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedReaderFeatureError,
    VersionNotFoundError,
)
from airflow_delta.hooks.airflow_features import HAS_RETRY_POLICIES, RetryAction
from airflow_delta.hooks.errors import AirflowFeatureMissingError
from airflow_delta.hooks.retry_policy import DeltaRetryPolicy, failing_fast, policy_arguments
from airflow_delta.jobs.errors import JobFailedError

CONFLICT = ConcurrentAppendError(table="t", read_version=1, winning_version=2, path="f.parquet")


def delays(policy, tries=5, **arguments):
    decisions = [policy.evaluate(CONFLICT, try_number=attempt, max_tries=9, **arguments) for attempt in range(1, tries + 1)]
    return [decision.retry_delay.total_seconds() for decision in decisions]


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (CONFLICT, RetryAction.RETRY),
        (CommitAttemptsExhaustedError(table="t", read_version=1, attempts=9), RetryAction.RETRY),
        (TableNotFoundError(table="t"), RetryAction.FAIL),
        (SchemaMismatchError(table="t", differences=()), RetryAction.FAIL),
        (UnsupportedReaderFeatureError(table="t", features=("x",)), RetryAction.FAIL),
        (VersionNotFoundError(table="t", version=7, earliest=1, latest=3), RetryAction.FAIL),
        (JobFailedError(table="t", operation="MERGE", error="KeyError", detail=""), RetryAction.DEFAULT),
        (RuntimeError("worker lost"), RetryAction.DEFAULT),
    ],
)
def test_an_error_decides_for_itself(error, action):
    assert DeltaRetryPolicy().evaluate(error, try_number=1, max_tries=3).action is action


def test_the_pause_after_a_conflict_doubles_up_to_the_cap():
    policy = DeltaRetryPolicy(base=timedelta(seconds=10), cap=timedelta(seconds=35), jitter=lambda: 1.0)
    assert delays(policy) == [10, 20, 35, 35, 35]


def test_two_tasks_that_met_do_not_wait_equally_long():
    shortest = delays(DeltaRetryPolicy(jitter=lambda: 0.0))
    longest = delays(DeltaRetryPolicy(jitter=lambda: 1.0))
    assert shortest == [pause / 2 for pause in longest]
    assert len(set(delays(DeltaRetryPolicy(), tries=4))) == 4


def test_a_shorter_retry_delay_of_the_task_is_the_first_pause():
    context = {"task": SimpleNamespace(retries=9, retry_delay=timedelta(seconds=2))}
    assert delays(DeltaRetryPolicy(jitter=lambda: 1.0), tries=3, context=context) == [2, 4, 8]
    context = {"task": SimpleNamespace(retries=9, retry_delay=timedelta(hours=1))}
    assert delays(DeltaRetryPolicy(jitter=lambda: 1.0), tries=1, context=context) == [30]


def test_the_first_pause_of_a_cleared_task_is_as_short_as_that_of_a_new_one():
    """Airflow goes on counting tries behind a clear, and raises ``max_tries`` to their number and the retries."""
    context = {"task": SimpleNamespace(retries=2, retry_delay=timedelta(minutes=5))}
    policy = DeltaRetryPolicy(jitter=lambda: 1.0)

    def pause(try_number, max_tries):
        decision = policy.evaluate(CONFLICT, try_number=try_number, max_tries=max_tries, context=context)
        return decision.retry_delay.total_seconds()

    assert (pause(1, 2), pause(2, 2)) == (30, 60)
    assert (pause(6, 7), pause(7, 7)) == (30, 60)
    assert (pause(1, 5), pause(2, 1)) == (30, 60)  # its retries were lowered, or raised, since


def test_the_reason_says_what_won_and_when_it_goes_on():
    decision = DeltaRetryPolicy(jitter=lambda: 1.0).evaluate(CONFLICT, try_number=1, max_tries=3)
    assert decision.reason.startswith("DELTA_CONCURRENT_APPEND: version 2 of t added")
    assert decision.reason.endswith("again in 30.0 s")
    fatal = DeltaRetryPolicy().evaluate(TableNotFoundError(table="t"), try_number=1, max_tries=3)
    assert fatal.reason == "DELTA_TABLE_NOT_FOUND: the same work would fail again"


def test_the_policy_survives_serialization():
    policy = DeltaRetryPolicy(base=timedelta(seconds=1), cap=timedelta(seconds=9))
    again = DeltaRetryPolicy.deserialize(json.loads(json.dumps(policy.serialize())))
    assert (again.base, again.cap) == (policy.base, policy.cap)


@pytest.mark.parametrize(("base", "cap"), [(0, 1), (-1, 1), (2, 1)])
def test_invalid_pauses_are_refused(base, cap):
    with pytest.raises(ValueError, match="expected 0 < base"):
        DeltaRetryPolicy(base=timedelta(seconds=base), cap=timedelta(seconds=cap))


class Operator:
    def __init__(self, error, *, fails_fast=True):
        self.error = error
        self.fails_fast = fails_fast

    @failing_fast
    def execute(self):
        raise self.error


def test_where_there_are_no_policies_an_error_that_would_come_again_is_final():
    with pytest.raises(TableNotFoundError) as raised:
        Operator(TableNotFoundError(table="t")).execute()
    error = raised.value
    assert isinstance(error, AirflowFailException)
    assert (error.code, error.table, str(error)) == ("DELTA_TABLE_NOT_FOUND", "t", str(TableNotFoundError(table="t")))
    assert type(pickle.loads(pickle.dumps(error))) is TableNotFoundError


@pytest.mark.parametrize("error", [CONFLICT, RuntimeError("worker lost")], ids=["a lost race", "not ours"])
def test_all_other_errors_are_left_to_the_retries(error):
    with pytest.raises(type(error)) as raised:
        Operator(error).execute()
    assert not isinstance(raised.value, AirflowFailException)


def test_a_task_without_a_policy_is_tried_again_whatever_happened():
    with pytest.raises(TableNotFoundError) as raised:
        Operator(TableNotFoundError(table="t"), fails_fast=False).execute()
    assert not isinstance(raised.value, AirflowFailException)


@pytest.mark.skipif(HAS_RETRY_POLICIES, reason="this Airflow has retry policies")
def test_a_policy_of_ones_own_is_refused_by_name():
    assert policy_arguments(None) == policy_arguments(DeltaRetryPolicy()) == {}
    with pytest.raises(AirflowFeatureMissingError, match=r"retry_policy needs Airflow 3\.3"):
        policy_arguments(DeltaRetryPolicy(base=timedelta(seconds=1)))
