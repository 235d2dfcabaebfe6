"""Which steps of a maintenance are due, decided from numbers alone."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.wording import counted


@dataclass(frozen=True, slots=True)
class Need:
    """Whether a step of a maintenance is due.

    Attributes:
        why: The numbers that decided it, in words.
    """

    due: bool
    why: str


def of_optimize(*, files: int, size: int, small_file_size: int, min_files: int) -> Need:
    """``files`` small ones, of ``size`` bytes together, lie in partitions that have ``min_files`` of them or more."""
    limit = f"{min_files} or more files below {small_file_size:,} bytes"
    if not files:
        return Need(False, f"no partition has {limit}")
    return Need(True, f"{counted(files, 'file')} ({size:,} bytes) in partitions that have {limit}")


def of_clustering(*, files: int, size: int, cubes: int, small_file_size: int, min_files: int) -> Need:
    """``files``, of ``size`` bytes together, are in no order yet; OPTIMIZE would unite them with those of ``cubes`` cubes.

    They count as small files do: ``min_files`` of them, or as many bytes as so many small files have. Cubes alone, which
    OPTIMIZE would unite, are always worth it; it names none where all rows are in order.
    """
    if not files:
        return Need(cubes > 0, f"{counted(cubes, 'small cube')} can become one" if cubes else "all files are in their order")
    limit = f"{min_files} files or {min_files * small_file_size:,} bytes are worth it"
    due = files >= min_files or size >= min_files * small_file_size
    return Need(due, f"{counted(files, 'file')} ({size:,} bytes) not clustered yet; {limit}")


def of_statistics(*, files: int) -> Need:
    """``files`` have no statistics."""
    return Need(files > 0, f"{counted(files, 'file')} without statistics")


def of_vacuum(*, files: int, size: int) -> Need:
    """``files``, of ``size`` bytes together, are needed by no version within the retention and by no pin."""
    return Need(
        files > 0, f"{counted(files, 'file')} ({size:,} bytes) of no version within the retention, and of no pinned one"
    )


def of_checkpoint(*, commits: int, max_commits: int, broken: int) -> Need:
    """Every reader reads ``commits`` after the last checkpoint; ``broken`` checkpoints could not be read."""
    if broken:
        return Need(True, f"{counted(broken, 'checkpoint')} cannot be read")
    return Need(commits > max_commits, f"every reader reads {counted(commits, 'commit')}; more than {max_commits} are too many")


def of_log_compaction(*, commits: int, max_commits: int) -> Need:
    """``commits`` are covered neither by a checkpoint nor by a compacted file."""
    why = f"{counted(commits, 'commit')} in no checkpoint and no compacted file; more than {max_commits} are too many"
    return Need(commits > max_commits, why)


def of_cleanup(*, files: int, keeps_log: bool) -> Need:
    """``files`` of the log are older than its retention; ``keeps_log`` says that the table wants to keep them."""
    if keeps_log:
        return Need(False, "delta.enableExpiredLogCleanup is false")
    return Need(files > 0, f"{counted(files, 'file')} of the log, older than its retention and needed by no later version")
