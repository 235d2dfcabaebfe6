"""Errors of a search for commits.

::

    DeltaError
    ├── CommitsCleanedUpError    commits were cleaned up before they were read
    ├── CommitWindowPassedError  no commit in the interval, and later ones exist
    └── StoredProgressError      what is stored of a watcher or a consumer is no progress
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors import DeltaError
from airflow_delta.core.foreign_values import moment


@dataclass(kw_only=True, eq=False)
class CommitsCleanedUpError(DeltaError):
    """Commits were cleaned up before they were read, and no commit that is left fulfills the wait: one of them may have.

    Attributes:
        first: The first version that is gone.
        earliest: The first later version that is still there.
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
    """No commit in the interval can appear any more: a later one exists, and commit times ascend.

    Attributes:
        start: Of the interval, milliseconds since the epoch.
        end: Of the interval.
        later: A version that was committed after it.
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
        """What happened and where, with times that people read."""
        return self.message.format(**self.attributes() | {"start": moment(self.start), "end": moment(self.end)})


@dataclass(kw_only=True, eq=False)
class StoredProgressError(DeltaError):
    """What is stored of a watcher or a consumer is no progress: it was edited, or written by another release.

    Attributes:
        found: The stored value.
        expected: What it should be.
    """

    code = "DELTA_STORED_PROGRESS"
    message = "expected {expected} as the stored progress, found {found}"
    remedy = (
        "correct the value in the asset's state store, before Airflow 3.3 in its file; or delete it, to begin with the start"
    )
    found: str
    expected: str
