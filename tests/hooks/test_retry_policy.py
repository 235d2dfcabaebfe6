"""Only what may not come again is tried again."""

import pytest
from airflow.sdk import RetryAction

from airflow_delta.core.errors import ConcurrentAppendError, SchemaMismatchError, TableNotFoundError
from airflow_delta.hooks.retry_policy import DeltaRetryPolicy
from airflow_delta.jobs.errors import JobFailedError


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (TableNotFoundError(table="t"), RetryAction.FAIL),
        (SchemaMismatchError(table="t", differences=()), RetryAction.FAIL),
        (ConcurrentAppendError(table="t", read_version=1, winning_version=2), RetryAction.DEFAULT),
        (JobFailedError(table="t", operation="MERGE", error="KeyError", detail=""), RetryAction.DEFAULT),
        (RuntimeError("worker lost"), RetryAction.DEFAULT),
    ],
)
def test_an_error_decides_for_itself(error, action):
    assert DeltaRetryPolicy().evaluate(error, try_number=1, max_tries=3).action is action


def test_the_policy_survives_serialization():
    policy = DeltaRetryPolicy()
    assert isinstance(DeltaRetryPolicy.deserialize(policy.serialize()), DeltaRetryPolicy)
