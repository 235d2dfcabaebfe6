"""The winning commit of a conflict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions
from airflow_delta.core.errors.conflict import RECORD_KEY

BACKFILL, UNBACKFILL = "ROW TRACKING BACKFILL", "ROW TRACKING UNBACKFILL"
"""Delta's operations that write all files again with and without row ids."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WinningCommit:
    """A commit that took a version which the attempt wanted.

    Attributes:
        version: The version it took.
        actions: What it wrote.
        file_time: Its time by its file, as history shows it, milliseconds since the epoch; None where it was not requested.
    """

    version: int
    actions: CommitActions
    file_time: int | None = None

    @property
    def info(self) -> dict[str, Any]:
        """Its commit info as in the log, without the token of the task that made it; empty where the writer left none."""
        fields = dict(self.actions.commit_info.fields) if self.actions.commit_info else {}
        if isinstance(record := fields.get(RECORD_KEY), dict):
            fields[RECORD_KEY] = {key: value for key, value in record.items() if key != "token"}
        return fields

    @property
    def operation(self) -> str | None:
        """Delta's name of what it did; None where the writer did not record it."""
        return self.actions.commit_info.operation if self.actions.commit_info else None

    @property
    def has_own_time(self) -> bool:
        """Whether it carries an in-commit timestamp, so that the time of its file does not matter."""
        return self.actions.commit_info is not None and self.actions.commit_info.in_commit_timestamp is not None

    @property
    def timestamp(self) -> int:
        """When it was committed, in milliseconds since the epoch, as far as that is known."""
        info = self.actions.commit_info
        if info and info.in_commit_timestamp is not None:
            return info.in_commit_timestamp
        return self.file_time or (info.timestamp if info else 0)

    @property
    def is_blind_append(self) -> bool:
        """Whether its writer recorded that it read nothing; False where it recorded nothing."""
        return bool(self.actions.commit_info and self.actions.commit_info.is_blind_append)

    @property
    def only_rearranges(self) -> bool:
        """Whether it put rows of files that it removed into other files, and changed none (compaction and the like)."""
        changes = (pc.any(files["data_change"]).as_py() for files in (self.actions.adds, self.actions.removes))
        return len(self.actions.removes) > 0 and not any(changes)
