"""Waits as plain values for sensors and triggers; importing them does not load the code that reads logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.watch.commit_filter import ANY_COMMIT, CommitFilter
from airflow_delta.watch.commit_window import CommitWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitWait:
    """A wait for a commit, and the progress of the search.

    Attributes:
        after: Commits up to this version do not count, or were read already; ``NO_TABLE`` if all commits in the log count.
        wanted: The conditions on the commit.
        min_rows: Rows that the wanted commits must have changed together; None if the first wanted commit is enough.
        rows: Rows that the wanted commits have changed so far.
        window: When the commit must have been made; None for any time.
        is_since_poke: Whether ``after`` is the version of a poke, not one that the user has named; then all commits of a table
            that was created again count.
    """

    after: int
    wanted: CommitFilter = ANY_COMMIT
    min_rows: int | None = None
    rows: int = 0
    window: CommitWindow | None = None
    is_since_poke: bool = False

    @property
    def is_for_any(self) -> bool:
        """Whether any commit (in the window) fulfills the wait, so that no commit has to be read."""
        return self.min_rows is None and self.wanted == ANY_COMMIT

    @property
    def progress(self) -> dict[str, int]:
        """The progress of the search, as JSON values."""
        return {"after": self.after, "rows": self.rows}

    def to_json(self) -> dict[str, Any]:
        """The wait as JSON values."""
        window = {} if self.window is None else {"window": self.window.to_json()}
        since = {"is_since_poke": True} if self.is_since_poke else {}
        wanted = self.wanted.to_json()
        return {"after": self.after, "wanted": wanted, "min_rows": self.min_rows, "rows": self.rows, **window, **since}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> CommitWait:
        """The wait that ``to_json`` wrote."""
        window = CommitWindow.from_json(document.get("window"))
        return cls(**{**document, "wanted": CommitFilter.of(**document["wanted"]), "window": window})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWait:
    """A wait for rows in partitions, and its progress.

    Attributes:
        partitions: A predicate over the partition columns.
        min_rows: How many rows the matching partitions must hold together.
        after: The latest version whose rows were counted, or ``NO_TABLE``.
        written: When the commit of that version was written, in milliseconds since the epoch; None if unknown.
    """

    partitions: str
    min_rows: int = 1
    after: int = NO_TABLE
    written: int | None = None

    @property
    def progress(self) -> dict[str, int]:
        """The progress of the search, as JSON values."""
        return {"after": self.after} | ({} if self.written is None else {"written": self.written})

    def to_json(self) -> dict[str, Any]:
        """The wait as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> PartitionWait:
        """The wait that ``to_json`` wrote."""
        return cls(**document)


Wait = CommitWait | PartitionWait


def wait_of(document: Mapping[str, Any]) -> Wait:
    """The wait that ``to_json`` wrote."""
    return CommitWait.from_json(document) if "wanted" in document else PartitionWait.from_json(document)
