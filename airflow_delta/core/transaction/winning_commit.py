"""The winning commit of a conflict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions
from airflow_delta.core.errors.conflict import RECORD_KEY

BACKFILL, UNBACKFILL = "ROW TRACKING BACKFILL", "ROW TRACKING UNBACKFILL"
"""Delta's names of the operations that add all files again with row ids, and without them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WinningCommit:
    """A commit that took a version that the attempt tried to write.

    Attributes:
        version: The version.
        actions: Its actions.
        file_time: Time of its file as history shows it, in milliseconds since the epoch; None if not requested.
    """

    version: int
    actions: CommitActions
    file_time: int | None = None

    @property
    def info(self) -> dict[str, Any]:
        """Its ``commitInfo`` as in the log, without the token of the task that made it; empty if the writer left none."""
        fields = dict(self.actions.commit_info.fields) if self.actions.commit_info else {}
        if isinstance(record := fields.get(RECORD_KEY), dict):
            fields[RECORD_KEY] = {key: value for key, value in record.items() if key != "token"}
        return fields

    @property
    def operation(self) -> str | None:
        """Delta's name of its operation; None if the writer did not record it."""
        return self.actions.commit_info.operation if self.actions.commit_info else None

    @property
    def has_own_time(self) -> bool:
        """Whether it has an in-commit timestamp, so that the time of its file does not matter."""
        return self.actions.commit_info is not None and self.actions.commit_info.in_commit_timestamp is not None

    @property
    def timestamp(self) -> int:
        """When it was committed, in milliseconds since the epoch, as far as known."""
        info = self.actions.commit_info
        if info and info.in_commit_timestamp is not None:
            return info.in_commit_timestamp
        return self.file_time or (info.timestamp if info else 0)

    @property
    def is_blind_append(self) -> bool:
        """Whether its writer recorded that it read nothing; False if it recorded nothing."""
        return bool(self.actions.commit_info and self.actions.commit_info.is_blind_append)

    @property
    def only_rearranges(self) -> bool:
        """Whether it only moved rows from the files it removed to those it added (compaction and the like)."""
        changes = (pc.any(files["data_change"]).as_py() for files in (self.actions.adds, self.actions.removes))
        return len(self.actions.removes) > 0 and not any(changes)
