"""Which failures are retried, and when."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from functools import cache, wraps
from types import new_class
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import Context

from airflow_delta.core.backoff import Backoff
from airflow_delta.core.errors import CommitAttemptsExhaustedError, CommitConflictError, DeltaError
from airflow_delta.core.foreign_values import printable
from airflow_delta.hooks.airflow_features import HAS_RETRY_POLICIES, RetryAction, RetryDecision, RetryPolicy, check_feature

LOST_RACES = (CommitConflictError, CommitAttemptsExhaustedError)
"""Errors of a commit that lost a race against another commit; the work itself is valid."""


class DeltaRetryPolicy(RetryPolicy):
    """Decides by the error: a lost race is retried soon, an error that would only recur fails the task at once.

    * A conflict, or too many lost attempts to commit: retried after a pause that grows from try to try and is random, so that
      two tasks which met once do not meet again.
    * A source that lacks a column, an unsupported table feature, a missing version, a failed expectation: the task fails.
    * Anything else, such as a lost worker or a job that died: left to ``retries`` and ``retry_delay``.

    There are never more tries than ``retries`` allows.

    Before Airflow 3.3, which has no retry policies, an error that would only recur still fails the task at once, but the pause
    after a lost race is the task's ``retry_delay``, and an operator with other settings of the policy is refused.

    Args:
        base: Longest pause after the first lost race; the longest pause doubles with each further one. A shorter
            ``retry_delay`` of the task takes its place.
        cap: Longest pause of all.
        jitter: Returns a random number from 0 to 1: a pause lasts between half of the longest pause and all of it.
    """

    def __init__(
        self,
        *,
        base: timedelta = timedelta(seconds=30),
        cap: timedelta = timedelta(minutes=10),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if not timedelta() < base <= cap:
            raise ValueError(f"expected 0 < base <= cap, found base {base} and cap {cap}")
        self.base = base
        self.cap = cap
        self.jitter = jitter

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,
        max_tries: int,
        context: Context | None = None,
    ) -> RetryDecision:
        """Decide by the error's own attributes."""
        if isinstance(exception, LOST_RACES):
            task = context["task"] if context else None
            # When a task is cleared, Airflow keeps counting its tries and raises max_tries.
            earlier = max(0, max_tries - (task.retries or 0)) if task else 0
            delay = self._delay(try_number - earlier, task.retry_delay if task else self.base)
            reason = f"{exception.code}: {printable(exception.claim())}"
            return RetryDecision.retry(delay, f"{reason}; again in {delay.total_seconds():.1f} s")
        if isinstance(exception, DeltaError) and not exception.retryable:
            return RetryDecision.fail(f"{exception.code}: the same work would fail again")
        return RetryDecision(action=RetryAction.DEFAULT)

    def serialize(self) -> dict[str, Any]:
        """The settings, without ``jitter``."""
        return {"__type": type(self).__name__, "base": self.base.total_seconds(), "cap": self.cap.total_seconds()}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> DeltaRetryPolicy:
        """The policy with the settings that ``serialize`` wrote."""
        return cls(base=timedelta(seconds=data["base"]), cap=timedelta(seconds=data["cap"]))

    def _delay(self, try_number: int, retry_delay: timedelta) -> timedelta:
        """The pause after a try; the first try has the number 1."""
        first = min(self.base, retry_delay)
        pauses = Backoff(first=first.total_seconds(), most=self.cap.total_seconds(), jitter=self.jitter)
        return timedelta(seconds=pauses.length(max(try_number - 1, 0)))


DEFAULT = DeltaRetryPolicy()
"""The policy of an operator that names no other; it has no state."""


def policy_arguments(policy: RetryPolicy | None) -> dict[str, Any]:
    """The policy as keyword arguments of Airflow's operators: empty before Airflow 3.3.

    Raises:
        AirflowFeatureMissingError: The policy is not the default one, and this Airflow has no retry policies.
    """
    if HAS_RETRY_POLICIES:
        return {"retry_policy": policy}
    is_default = isinstance(policy, DeltaRetryPolicy) and policy.serialize() == DEFAULT.serialize()
    check_feature("retry_policy", is_there=policy is None or is_default, needed="3.3")
    return {}


def failing_fast(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an operator's method so that, before Airflow 3.3, its errors that a retry cannot help fail the task at once.

    The error keeps its class and becomes an ``AirflowFailException``, too. Operators with ``retry_policy=None`` are left out.
    """

    @wraps(method)
    def call(operator: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(operator, *args, **kwargs)
        except DeltaError as error:
            if operator.fails_fast and not (error.retryable or isinstance(error, AirflowFailException)):
                kind: Any = type(error)
                error.__class__ = _final(kind)
            raise

    return call


@cache
def _final(error: Any) -> Any:
    """A subclass of this error after which Airflow does not retry."""
    return new_class(error.__name__, (error, AirflowFailException), {"is_variant": True})
