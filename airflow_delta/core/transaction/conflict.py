"""Builds the error of a conflict rule."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from airflow_delta.core.errors import CommitConflictError
from airflow_delta.core.transaction.commit_attempt import CommitAttempt
from airflow_delta.core.transaction.winning_commit import WinningCommit


def conflict(
    error: type[CommitConflictError], attempt: CommitAttempt, winner: WinningCommit, **attributes: Any
) -> CommitConflictError:
    """The error, naming the table, the attempt and the winner; the caller of the rule adds the rule's name."""
    return error(
        table=attempt.table,
        read_version=attempt.read_version,
        winning_version=winner.version,
        winner=winner.info,
        **attributes,
    )


def first_file(files: pa.Table) -> dict[str, Any]:
    """The first of the files, in the form in which conflict errors name a file."""
    partition = files["partition_values"][0].as_py() or ()
    return {"path": files["path"][0].as_py(), "partition": dict(partition)}
