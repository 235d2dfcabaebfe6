"""Which steps of a maintenance are due, decided from numbers alone."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.wording import counted


@dataclass(frozen=True, slots=True)
class Need:
    """Whether a step of a maintenance is due.

    Attributes:
        due: Whether the step is due.
        why: The numbers that decided it, in words.
    """

    due: bool
    why: str


def of_optimize(*, files: int, size: int, small_file_size: int, min_files: int) -> Need:
    """Whether to compact ``files`` small files (``size`` bytes in total), in partitions with at least ``min_files`` of them."""
    limit = f"{min_files} or more files below {small_file_size:,} bytes"
    if not files:
        return Need(False, f"no partition has {limit}")
    return Need(True, f"{counted(files, 'file')} ({size:,} bytes) in partitions that have {limit}")


def of_clustering(*, files: int, size: int, cubes: int, small_file_size: int, min_files: int) -> Need:
    """Whether to cluster ``files`` new files (``size`` bytes in total), which OPTIMIZE would unite with ``cubes`` small cubes.

    New files are worth it from ``min_files`` files on, or from the bytes of that many small files on. Without new files, small
    cubes are always worth uniting; if all rows are clustered, OPTIMIZE finds no such cubes.
    """
    if not files:
        return Need(cubes > 0, f"{counted(cubes, 'small cube')} can become one" if cubes else "all files are in their order")
    limit = f"{min_files} files or {min_files * small_file_size:,} bytes are worth it"
    due = files >= min_files or size >= min_files * small_file_size
    return Need(due, f"{counted(files, 'file')} ({size:,} bytes) not clustered yet; {limit}")


def of_statistics(*, files: int) -> Need:
    """Whether to compute statistics for ``files`` files without statistics."""
    return Need(files > 0, f"{counted(files, 'file')} without statistics")


def of_vacuum(*, files: int, size: int) -> Need:
    """Whether to delete ``files`` files (``size`` bytes in total) that neither a retained version nor a pin needs."""
    return Need(
        files > 0, f"{counted(files, 'file')} ({size:,} bytes) of no version within the retention, and of no pinned one"
    )


def of_checkpoint(*, commits: int, max_commits: int, broken: int) -> Need:
    """Whether to write a checkpoint: readers read ``commits`` commits, and ``broken`` checkpoints cannot be read."""
    if broken:
        return Need(True, f"{counted(broken, 'checkpoint')} cannot be read")
    return Need(commits > max_commits, f"every reader reads {counted(commits, 'commit')}; more than {max_commits} are too many")


def of_log_compaction(*, commits: int, max_commits: int) -> Need:
    """Whether to compact ``commits`` commits that neither a checkpoint nor a compacted file covers."""
    why = f"{counted(commits, 'commit')} in no checkpoint and no compacted file; more than {max_commits} are too many"
    return Need(commits > max_commits, why)


def of_cleanup(*, files: int, keeps_log: bool) -> Need:
    """Whether to delete ``files`` expired files of the log; ``keeps_log``: the table is configured to keep them."""
    if keeps_log:
        return Need(False, "delta.enableExpiredLogCleanup is false")
    return Need(files > 0, f"{counted(files, 'file')} of the log, older than its retention and needed by no later version")
