"""The cases of writing."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from benchmarks.log_core.case import Case, Size
from benchmarks.log_core.tables import large_table, version_of_table

_HINT = "_last_checkpoint"


def _table_with_a_kept_hint(directory: Path, size: Size) -> Path:
    table = large_table(directory, size)
    shutil.copyfile(table / "_delta_log" / _HINT, table / _HINT)
    return table


def _without_new_checkpoint(table: Path) -> None:
    """Restore the table to what it was when made."""
    (table / "_delta_log" / f"{version_of_table(table):020d}.checkpoint.parquet").unlink(missing_ok=True)
    shutil.copyfile(table / _HINT, table / "_delta_log" / _HINT)


def _empty_directory(directory: Path, _size: Size) -> Path:
    path = directory / "commits"
    path.mkdir(exist_ok=True)
    return path


def _emptied(directory: Path) -> None:
    """Move files aside instead of deleting them: the filesystem's journal would still be busy with that during the next run."""
    directory.rename(directory.with_name(f"{directory.name}-{uuid.uuid4()}"))
    directory.mkdir()


CASES = (
    Case(
        name="checkpoint",
        ours="benchmarks.log_core.writing_ours:write_checkpoint",
        theirs="benchmarks.log_core.writing_theirs:write_checkpoint",
        time=0.6,
        memory=0.6,
        make=_table_with_a_kept_hint,
        reset=_without_new_checkpoint,
    ),
    Case(
        name="commit",
        ours="benchmarks.log_core.writing_ours:commit_one_add",
        theirs="benchmarks.log_core.writing_theirs:write_sync_and_link",
        time=3.0,
        make=_empty_directory,
        reset=_emptied,
    ),
)
