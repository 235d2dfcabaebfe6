"""The party of a race that was faster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WinningCommit:
    """A commit that took a version which the attempt wanted.

    Attributes:
        version: The version it took.
        actions: What it wrote.
    """

    version: int
    actions: CommitActions

    @property
    def info(self) -> dict[str, Any]:
        """Its commit info as in the log; empty where the writer left none."""
        return dict(self.actions.commit_info.fields) if self.actions.commit_info else {}

    @property
    def is_blind_append(self) -> bool:
        """Whether its writer said that it read nothing; silence is a no."""
        return bool(self.actions.commit_info and self.actions.commit_info.is_blind_append)

    @property
    def only_rearranges(self) -> bool:
        """Whether it put rows of files that it removed into other files, and changed none (compaction and the like)."""
        changes = (pc.any(files["data_change"]).as_py() for files in (self.actions.adds, self.actions.removes))
        return len(self.actions.removes) > 0 and not any(changes)
