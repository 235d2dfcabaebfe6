"""The checks of the health check, listed in ``CHECKS``; each yields its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice, pairwise
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from airflow_delta.core.errors import DeltaError, InvalidTablePropertyError, StorageAccessError, StorageUnavailableError
from airflow_delta.core.log.action_reconciliation import canonical_paths
from airflow_delta.core.log.file_names import LAST_CHECKPOINT, LOG_DIRECTORY, checksum_path, commit_path, parse_name
from airflow_delta.core.log.last_checkpoint import hinted_version
from airflow_delta.core.operations.recompute_statistics import without_statistics
from airflow_delta.core.operations.table_health.finding import Finding, Severity
from airflow_delta.core.operations.table_health.inspected_table import SMALL_FILE, InspectedTable
from airflow_delta.core.operations.unneeded_files import deletion_vector_files, lies_below_the_root, unencoded
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.storage_failures import read_data
from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.core.table_features.support import check_writable
from airflow_delta.core.transaction.table_properties import (
    DELETED_FILE_RETENTION,
    LOG_RETENTION,
    check_interval,
    checkpoint_interval,
    deleted_file_retention,
)
from airflow_delta.core.wording import counted

_EXAMPLES = 5
_DAY = 86_400_000  # milliseconds
_MANY_FILES = 100
_OVERDUE = 10  # checkpoint intervals after which a checkpoint is overdue

Check: TypeAlias = Callable[[InspectedTable], Iterator[Finding]]


def unreadable(table: InspectedTable) -> Iterator[Finding]:
    """The table cannot be opened."""
    if table.error:
        yield _of_error(table.error, Severity.ERROR)


def unwritable(table: InspectedTable) -> Iterator[Finding]:
    """The table can be read, but this package cannot write it."""
    if table.snapshot is None:
        return
    try:
        check_writable(table.log.table_uri, table.snapshot.protocol, table.snapshot.metadata)
    except DeltaError as error:
        yield _of_error(error, Severity.WARNING)


def gaps(table: InspectedTable) -> Iterator[Finding]:
    """A commit is missing between others, so that versions before it are lost although their files exist."""
    commits = sorted(table.listing.commits)
    missing = commits[-1] - commits[0] + 1 - len(commits) if commits else 0
    if missing:
        # A file name may contain any number, so missing versions are counted, not listed.
        holes = (version for before, after in pairwise(commits) for version in range(before + 1, after))
        yield _warning(
            "COMMITS_MISSING",
            f"{counted(missing, 'commit')} missing between others: right after them, only a checkpoint's version can be read",
            "restore the commit files from a backup; if these versions are not needed, no action is needed",
            tuple(map(commit_path, islice(holes, _EXAMPLES))),
        )


def broken_checkpoints(table: InspectedTable) -> Iterator[Finding]:
    """Unreadable checkpoints were skipped when the table was opened and its files were read."""
    for broken in table.snapshot.replay.broken_checkpoints if table.snapshot else ():
        yield _warning(
            "CHECKPOINT_UNREADABLE",
            f"the checkpoint of version {broken.version} cannot be read; an older one and more commits serve instead",
            "write a checkpoint (airflow-delta checkpoint)",
            tuple(file.path for file in broken.files[:_EXAMPLES]),
        )


def wrong_checksum(table: InspectedTable) -> Iterator[Finding]:
    """The checksum file contradicts the log; engines that trust it return wrong results."""
    if table.snapshot and (differences := table.snapshot.verify_checksum()):
        yield _warning(
            "CHECKSUM_WRONG",
            f"the checksum file of version {table.snapshot.version} contradicts the log: {'; '.join(differences)}",
            "delete the checksum file",
            (checksum_path(table.snapshot.version),),
        )


def wrong_hint(table: InspectedTable) -> Iterator[Finding]:
    """``_last_checkpoint`` names a checkpoint that does not exist."""
    store = table.log.store
    if not store.exists(LAST_CHECKPOINT):
        return
    hint = hinted_version(store)
    if hint not in {checkpoint.version for checkpoint in table.listing.checkpoints}:
        what = "cannot be read" if hint is None else f"names version {hint}, of which there is no checkpoint"
        yield _warning(
            "HINT_WRONG",
            f"_last_checkpoint {what}",
            "write a checkpoint (airflow-delta checkpoint)",
            (LAST_CHECKPOINT,),
        )


def overdue_checkpoint(table: InspectedTable) -> Iterator[Finding]:
    """Readers must read many commits, as no recent checkpoint exists."""
    if table.snapshot is None:
        return
    interval = checkpoint_interval(table.snapshot.metadata.configuration)
    if table.commits_since_checkpoint > _OVERDUE * interval:
        yield _hint(
            "CHECKPOINT_OVERDUE",
            f"every reader reads {counted(table.commits_since_checkpoint, 'commit')}; a checkpoint is due every {interval}",
            "write a checkpoint (airflow-delta checkpoint)",
        )


def stray_log_files(table: InspectedTable) -> Iterator[Finding]:
    """Files in ``_delta_log`` that do not belong to the log and slow down every listing."""
    if table.listed is None:
        return
    paths = table.listed["path"]
    inside = paths.filter(pc.match_substring_regex(paths, f"^{LOG_DIRECTORY}/[^_/][^/]*$"))
    stray = [path for path in inside.to_pylist() if parse_name(path.rpartition("/")[2]) is None]
    if len(stray) > _MANY_FILES:
        yield _hint(
            "STRAY_LOG_FILES",
            f"{len(stray)} files in {LOG_DIRECTORY} do not belong to the log",
            "delete them while no writer is running",
            tuple(stray[:_EXAMPLES]),
        )


def doubled_files(table: InspectedTable) -> Iterator[Finding]:
    """A data file is live twice: with two deletion vectors, its rows are read twice."""
    if table.snapshot is None:
        return
    counts = canonical_paths(table.files["path"]).value_counts()
    doubled = pc.struct_field(counts, 0).filter(pc.greater(pc.struct_field(counts, 1), 1))
    if len(doubled):
        yield _error(
            "DOUBLED_DATA_FILES",
            f"{counted(len(doubled), 'data file')} live more than once: the rows are read more than once",
            "restore the table to a version before that",
            tuple(doubled[:_EXAMPLES].to_pylist()),
        )


def missing_files(table: InspectedTable) -> Iterator[Finding]:
    """Live data files, or files of their deletion vectors, that do not exist; data files whose size differs from the log."""
    if table.snapshot is None or table.listed is None:
        return
    deletion_vectors = deletion_vector_files(table.files["deletion_vector"], table=table.log.table_uri)
    paths = pa.chunked_array([*table.files["path"].chunks, *deletion_vectors.chunks], pa.string())
    names = unencoded(paths)
    position = pc.index_in(names, value_set=table.listed["path"].combine_chunks())
    is_unlisted = pc.and_(lies_below_the_root(names), pc.is_null(position))
    missing = unencoded(_not_behind_links(table, paths.filter(is_unlisted)))
    if len(missing):
        live = "data files and files of deletion vectors" if len(deletion_vectors) else "data files"
        yield _error(
            "MISSING_DATA_FILES",
            f"{len(missing)} of {len(names)} live {live} are missing: every read that needs them fails",
            "restore them from a backup, or restore the table to a version that does not need them",
            tuple(missing[:_EXAMPLES].to_pylist()),
        )
    position = position[: len(table.files)]  # the size of a deletion vector's file is not in the log
    other_size = pc.not_equal(table.listed["size"].take(position), table.files["size"])
    changed = names[: len(table.files)].filter(pc.fill_null(other_size, False))
    if len(changed):
        yield _warning(
            "DATA_FILES_CHANGED",
            f"{counted(len(changed), 'data file')} of another size than the log says: overwritten by something else",
            "restore them from a backup, or rewrite them by OPTIMIZE if their rows are right",
            tuple(changed[:_EXAMPLES].to_pylist()),
        )


def _not_behind_links(table: InspectedTable, paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """The files missing in the listing, without those behind a link to a directory, which a listing does not follow."""
    if scheme_of(table.log.table_uri) != "file":
        return paths
    locate = FileLocator.from_store(table.log.store)

    def is_there(path: str) -> bool:
        try:
            filesystem, place = locate(path)
            found = read_data(lambda: filesystem.get_file_info(place), table=table.log.table_uri, file=path)
        except (StorageAccessError, StorageUnavailableError):
            raise
        except DeltaError:  # readers do not find it either, for example if its name is too long
            return False
        return bool(found.type == pafs.FileType.File)

    return paths.filter(pa.array([not is_there(path) for path in paths.to_pylist()], pa.bool_()))


def missing_statistics(table: InspectedTable) -> Iterator[Finding]:
    """Files that no predicate on data columns can skip, because they lack statistics."""
    if table.snapshot is None:
        return
    without = table.files["path"].filter(without_statistics(table.files))
    if len(without):
        yield _hint(
            "STATISTICS_MISSING",
            f"{counted(len(without), 'file')} without statistics: every query reads them, and merges conflict over them",
            "compute them (DeltaRecomputeStatisticsOperator, or DeltaLog.recompute_statistics)",
            tuple(without[:_EXAMPLES].to_pylist()),
        )


def small_files(table: InspectedTable) -> Iterator[Finding]:
    """Many files of a few megabytes."""
    small = table.figures().get("small_files", 0)
    if small >= _MANY_FILES:
        yield _hint(
            "SMALL_FILES",
            f"{small} of {len(table.files)} files are smaller than {SMALL_FILE >> 20} MiB",
            "compact them (DeltaOptimizeOperator)",
        )


def unneeded_storage(table: InspectedTable) -> Iterator[Finding]:
    """Files that a vacuum would delete."""
    if table.unneeded is not None and len(table.unneeded):
        size = pc.sum(table.unneeded["size"]).as_py()
        yield _hint(
            "VACUUM_DUE",
            f"{counted(len(table.unneeded), 'file')} ({size:,} bytes) of no version within the retention",
            "vacuum (airflow-delta vacuum, DeltaVacuumOperator)",
            tuple(table.unneeded["path"][:_EXAMPLES].to_pylist()),
        )


def short_retention(table: InspectedTable) -> Iterator[Finding]:
    """The retention is so short that a vacuum may delete what a long-running reader needs."""
    if table.snapshot is None:
        return
    retention = deleted_file_retention(table.snapshot.metadata.configuration)
    if retention < _DAY:
        yield _warning(
            "RETENTION_SHORT",
            f"delta.deletedFileRetentionDuration is {retention / 3_600_000:g} hours: a vacuum can delete files in use",
            "set it longer than the longest job takes",
        )


def unreadable_retention(table: InspectedTable) -> Iterator[Finding]:
    """Vacuum and log cleanup delete nothing while a retention property is invalid."""
    if table.snapshot is None:
        return
    for name in (DELETED_FILE_RETENTION, LOG_RETENTION):
        try:
            check_interval(table.snapshot.metadata.configuration, name)
        except InvalidTablePropertyError as error:
            yield _of_error(error, Severity.WARNING)


CHECKS: tuple[Check, ...] = (
    unreadable,
    missing_files,
    doubled_files,
    unwritable,
    gaps,
    broken_checkpoints,
    wrong_checksum,
    wrong_hint,
    short_retention,
    unreadable_retention,
    overdue_checkpoint,
    missing_statistics,
    small_files,
    unneeded_storage,
    stray_log_files,
)


def _finding(severity: Severity, code: str, text: str, remedy: str, files: Iterable[str] = ()) -> Finding:
    return Finding(severity=severity, code=code, text=text, remedy=remedy, files=tuple(files))


_error, _warning, _hint = (partial(_finding, severity) for severity in Severity)


def _of_error(error: DeltaError, severity: Severity) -> Finding:
    file = error.attributes().get("file")
    remedy = error.remedy.format(**error.attributes())
    return Finding(severity=severity, code=error.code, text=error.claim(), remedy=remedy, files=(file,) if file else ())
