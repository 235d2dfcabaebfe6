"""Which failures are worth another try."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context, RetryAction, RetryDecision, RetryPolicy

from airflow_delta.core.errors import DeltaError


class DeltaRetryPolicy(RetryPolicy):
    """Ends a task at once when its error would only come again; all other failures are left to ``retries``.

    A conflict, a lost worker, a job that died: tried again. A source that lacks a column, a failed expectation, a version
    that does not exist: failed. Pass another ``retry_policy`` to the operator to decide otherwise.
    """

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,  # noqa: ARG002 - the port's signature
        max_tries: int,  # noqa: ARG002
        context: Context | None = None,  # noqa: ARG002
    ) -> RetryDecision:
        """Decide by what the error says about itself."""
        if isinstance(exception, DeltaError) and not exception.retryable:
            return RetryDecision(action=RetryAction.FAIL, reason=f"{exception.code}: the same work would fail again")
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        """The policy has no settings."""
        return {"__type": type(self).__name__}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> DeltaRetryPolicy:  # noqa: ARG003 - the port's signature
        """The policy has no settings."""
        return cls()
