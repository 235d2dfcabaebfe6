"""What is waited for, as sensors and triggers carry it: plain values, without what reads a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.watch.commit_filter import ANY_COMMIT, CommitFilter
from airflow_delta.watch.commit_window import CommitWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitWait:
    """What is waited for, and the progress of the search.

    Attributes:
        after: Commits up to this version do not count, or were read; ``NO_TABLE`` when all count that the log still holds.
        wanted: The conditions on the commit.
        min_rows: Rows that the wanted commits must have changed together; None when the first of them is enough.
        rows: Rows that they have changed so far.
        window: When it must have been made; None for any time.
        is_since_poke: Whether ``after`` is the version of a poke, and none that the user has named: all commits of a table that
            is made anew come later.
    """

    after: int
    wanted: CommitFilter = ANY_COMMIT
    min_rows: int | None = None
    rows: int = 0
    window: CommitWindow | None = None
    is_since_poke: bool = False

    @property
    def is_for_any(self) -> bool:
        """Whether any commit will do (of the window), so that none needs to be read."""
        return self.min_rows is None and self.wanted == ANY_COMMIT

    @property
    def progress(self) -> dict[str, int]:
        """What the search has changed."""
        return {"after": self.after, "rows": self.rows}

    def to_json(self) -> dict[str, Any]:
        """The wait as JSON values."""
        window = {} if self.window is None else {"window": self.window.to_json()}
        since = {"is_since_poke": True} if self.is_since_poke else {}
        wanted = self.wanted.to_json()
        return {"after": self.after, "wanted": wanted, "min_rows": self.min_rows, "rows": self.rows, **window, **since}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> CommitWait:
        """The wait that ``to_json`` described."""
        window = CommitWindow.from_json(document.get("window"))
        return cls(**{**document, "wanted": CommitFilter.of(**document["wanted"]), "window": window})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWait:
    """What is waited for, and the progress.

    Attributes:
        partitions: A predicate over the partition columns.
        min_rows: How many rows these partitions must hold together.
        after: The latest version that was counted, or ``NO_TABLE``.
        written: When the commit of that version was written, milliseconds since the epoch; None where it is not known.
    """

    partitions: str
    min_rows: int = 1
    after: int = NO_TABLE
    written: int | None = None

    @property
    def progress(self) -> dict[str, int]:
        """What the search has changed."""
        return {"after": self.after} | ({} if self.written is None else {"written": self.written})

    def to_json(self) -> dict[str, Any]:
        """The wait as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> PartitionWait:
        """The wait that ``to_json`` described."""
        return cls(**document)


Wait = CommitWait | PartitionWait


def wait_of(document: Mapping[str, Any]) -> Wait:
    """The wait that ``to_json`` described."""
    return CommitWait.from_json(document) if "wanted" in document else PartitionWait.from_json(document)
