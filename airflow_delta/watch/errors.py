"""Errors of a search for commits.

::

    DeltaError
    ├── CommitsCleanedUpError    commits were cleaned up before they were read
    ├── CommitWindowPassedError  no commit in the interval, and later ones exist
    └── StoredProgressError      the stored progress of a watcher or consumer is invalid
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors import DeltaError
from airflow_delta.core.foreign_values import moment


@dataclass(kw_only=True, eq=False)
class CommitsCleanedUpError(DeltaError):
    """Commits were cleaned up before they were read, and may have fulfilled the wait, which no remaining commit does.

    Attributes:
        first: The first version that was cleaned up.
        earliest: The first later version that still exists.
    """

    code = "DELTA_COMMITS_CLEANED_UP"
    message = (
        "the commits of {table} from {first} to before {earliest} were cleaned up before they were read, and the "
        "awaited commit may be among them"
    )
    remedy = "clear the task to wait for a new commit; raise delta.logRetentionDuration, or lower the poke interval"
    table: str
    first: int
    earliest: int


@dataclass(kw_only=True, eq=False)
class CommitWindowPassedError(DeltaError):
    """No more commits can appear in the interval: a later commit exists, and commit times ascend.

    Attributes:
        start: Start of the interval, in milliseconds since the epoch.
        end: End of the interval, in milliseconds since the epoch.
        later: A version that was committed after the interval.
    """

    code = "DELTA_COMMIT_WINDOW_PASSED"
    message = (
        "expected a commit to {table} from {start} to {end}; there is none that fulfills the wait, "
        "and version {later} was committed after the interval"
    )
    remedy = "check whether the writer was late or failed; to wait for later commits too, use after_timestamp"
    table: str
    start: int
    end: int
    later: int

    def claim(self) -> str:
        """The error's message with human-readable times."""
        return self.message.format(**self.attributes() | {"start": moment(self.start), "end": moment(self.end)})


@dataclass(kw_only=True, eq=False)
class StoredProgressError(DeltaError):
    """The stored progress of a watcher or a consumer is invalid: it was edited, or written by another release.

    Attributes:
        found: The stored value.
        expected: The form that it should have.
    """

    code = "DELTA_STORED_PROGRESS"
    message = "expected {expected} as the stored progress, found {found}"
    remedy = (
        "correct the value in the asset's state store, before Airflow 3.3 in its file; or delete it, to begin with the start"
    )
    found: str
    expected: str
