"""RESTORE: restores a table to an earlier version or time.

Follows ``RestoreTableCommand`` of Delta Spark, with these differences: a version is refused if its files are gone, not just
because it is older than the retention; deletion vectors are checked like data files; missing files that are ignored are left
out of the table, instead of being referenced; and ``delta.columnMapping.maxColumnId`` never decreases.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import DomainMetadata, Metadata, Origin, Protocol, removes_of
from airflow_delta.core.data_files.deletion_vector import deletion_vector_path
from airflow_delta.core.errors import AppendOnlyTableError, DataFilesMissingError, InvalidStatementError
from airflow_delta.core.log.action_reconciliation import file_keys
from airflow_delta.core.log.managed_commits import identifying_properties
from airflow_delta.core.log.record_counts import NUM_RECORDS, with_record_counts
from airflow_delta.core.operations.clone import with_new_row_ids
from airflow_delta.core.operations.missing_files import missing_files
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.operations.unneeded_files import check_contained, deletion_vector_files
from airflow_delta.core.schema import StructField, StructType, parse_schema, schema_json
from airflow_delta.core.schema.column_mapping import MAX_ID_PROPERTY, greatest_id, physical_name
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_changes.properties import required_by_catalog
from airflow_delta.core.table_features.feature import CLUSTERING, columns_of, writer_features
from airflow_delta.core.table_features.protocol import upgraded
from airflow_delta.core.table_features.support import ROW_FEATURES, check_writable
from airflow_delta.core.transaction.commit_result import CommitResult
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.row_tracking import ENABLED_PROPERTY, high_water_mark
from airflow_delta.core.transaction.table_properties import is_append_only

_EXAMPLES = 10  # missing files shown in the error
_KEPT_BY_WRITERS = ROW_FEATURES | {"rowTracking"}  # enforced by the original writers of the rows, which keep their ids
_STEP, _MARK = "delta.identity.step", "delta.identity.highWaterMark"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """The outcome of a restore; names and units as in Delta's operation metrics (files, bytes).

    Attributes:
        version: Version of the commit; in a dry run, of the table.
        restored_version: The version that was restored.
        commit: The commit with the results of its hooks; None if no commit was made.
    """

    version: int
    restored_version: int
    table_size_after_restore: int
    num_of_files_after_restore: int
    num_removed_files: int
    num_restored_files: int
    removed_files_size: int
    restored_files_size: int
    commit: CommitResult | None = field(default=None, compare=False, repr=False)

    def metrics(self) -> dict[str, int]:
        """Delta's operation metrics."""
        return {
            "tableSizeAfterRestore": self.table_size_after_restore,
            "numOfFilesAfterRestore": self.num_of_files_after_restore,
            "numRemovedFiles": self.num_removed_files,
            "numRestoredFiles": self.num_restored_files,
            "removedFilesSize": self.removed_files_size,
            "restoredFilesSize": self.restored_files_size,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileDifference:
    """The file actions that turn one version's files into another's.

    Attributes:
        added: Files to add, columns ``ADD_FILE``, with their statistics, tags, deletion vectors and row ids.
        removed: Files to remove, columns ``ADD_FILE``.
    """

    added: pa.Table
    removed: pa.Table


def restore(
    log: TableLog,
    *,
    version: int | None,
    timestamp: int | str | None,
    ignore_missing_files: bool,
    dry_run: bool = False,
    origin: Origin,
) -> RestoreResult:
    """Restore the table to a version or a time, in one commit that is never rebased over another.

    Schema, properties, partitioning and clustering are restored; the protocol is never lowered, and row ids and identity values
    that were assigned since are not assigned again.

    Args:
        log: The table.
        version: The version to restore.
        timestamp: Or its time: milliseconds since the epoch, or ISO text.
        ignore_missing_files: Leave out files that no longer exist, instead of failing.
        dry_run: Only report what would be done.
        origin: The task run that requests it.

    Raises:
        InvalidStatementError: Neither version nor time is given, or the version is the latest one.
        VersionNotFoundError: The log does not hold the version.
        TimestampOutOfRangeError: The time lies before the first or after the last version.
        DataFilesMissingError: Files of the version were deleted.
        ConcurrentWriteError: Another writer committed meanwhile; nothing was committed.
        AppendOnlyTableError: The restore would remove rows from an append-only table.
        UnsupportedWriterFeatureError: The version requires an unsupported writer feature.
    """
    if version is None and timestamp is None:
        raise InvalidStatementError(statement="RESTORE", detail="it needs a version or a timestamp")
    target = log.snapshot(version, timestamp)
    transaction = log.start_transaction(enforces=_KEPT_BY_WRITERS)
    latest = transaction.snapshot
    if target.version == latest.version:
        detail = f"version {target.version} of {log.table_uri} is the latest one already"
        raise InvalidStatementError(statement="RESTORE", detail=detail)
    check_writable(log.table_uri, target.protocol, target.metadata)
    transaction.read_whole_table()
    difference = file_difference(latest.files(), target.files())
    if len(difference.removed) and is_append_only(latest.metadata.configuration):  # whatever that version allows
        raise AppendOnlyTableError(table=log.table_uri)
    gone = _missing(target, difference.added)
    if len(gone) and not ignore_missing_files:
        examples = tuple(gone.slice(0, _EXAMPLES).to_pylist())
        raise DataFilesMissingError(table=log.table_uri, version=target.version, missing=len(gone), examples=examples)
    unreadable = _unreadable(difference.added, gone)
    added = difference.added.filter(pc.invert(pc.is_in(file_keys(difference.added), file_keys(unreadable))))
    result = RestoreResult(
        version=latest.version,
        restored_version=target.version,
        table_size_after_restore=_bytes(target.files()) - _bytes(unreadable),
        num_of_files_after_restore=len(target.files()) - len(unreadable),
        num_removed_files=len(difference.removed),
        num_restored_files=len(added),
        removed_files_size=_bytes(difference.removed),
        restored_files_size=_bytes(added),
    )
    if dry_run:
        return result
    forgets_ids = _row_ids_are_lost(target, latest, added)
    metadata = restored_metadata(target.metadata, latest.metadata)
    kept = required_by_catalog(identifying_properties(log.store), latest.protocol)  # maybe managed only since then
    metadata = replace(metadata, configuration={**metadata.configuration, **kept})
    transaction.set_metadata(_without_row_tracking(metadata) if forgets_ids else metadata)
    transaction.set_protocol(restored_protocol(target.protocol, latest.protocol))
    committed = transaction.commit(
        adds=with_new_row_ids(added) if forgets_ids else added,
        removes=removes_of(difference.removed, deletion_timestamp=log.clock(), data_change=True),
        domains=restored_domains(target, latest),
        operation=Operation(name="RESTORE", parameters={"version": version, "timestamp": _time_text(timestamp)}),
        metrics=result.metrics(),
        origin=origin,
        resolve_conflicts=False,
    )
    return replace(result, version=committed.version, commit=committed)


def file_difference(current: pa.Table, wanted: pa.Table) -> FileDifference:
    """The files to add to and to remove from ``current`` to get ``wanted`` (both ``ADD_FILE``).

    The same path with another deletion vector counts as another file.
    """
    ours, theirs = file_keys(current), file_keys(wanted)
    added = wanted.filter(pc.invert(pc.is_in(theirs, ours)))
    changes = pa.repeat(pa.scalar(True), len(added))
    position = added.schema.get_field_index("data_change")
    return FileDifference(
        added=added.set_column(position, added.schema.field(position), changes),
        removed=current.filter(pc.invert(pc.is_in(ours, theirs))),
    )


def restored_metadata(target: Metadata, latest: Metadata) -> Metadata:
    """The metadata of ``target``; counters that must not decrease keep the value of ``latest`` if that is higher."""
    configuration = dict(target.configuration)
    # Even for a version from before column mapping, which may be enabled again.
    if (last := greatest_id(latest.configuration)) > greatest_id(configuration):
        configuration[MAX_ID_PROPERTY] = str(last)
    schema = parse_schema(target.schema_string)
    merged = _with_high_water_marks(schema, columns_of(target), columns_of(latest))
    schema_string = target.schema_string if merged == schema else schema_json(merged)
    return replace(target, schema_string=schema_string, configuration=configuration)


def _row_ids_are_lost(target: Snapshot, latest: Snapshot, added: pa.Table) -> bool:
    """Whether row ids were removed since ``target``: then ids may be unknown, or assigned to other rows by now.

    That is so if row numbering started again: the high-water mark decreased, or files have other ids.
    """
    marks = [high_water_mark(snapshot.domains.values(), snapshot.table_uri) for snapshot in (target, latest)]
    if marks[0] is not None and (marks[1] is None or marks[0] > marks[1]):
        return True
    wanted, current = target.files(), latest.files()
    if wanted["base_row_id"].null_count == len(wanted):
        return False
    before = wanted["base_row_id"].take(pc.index_in(current["path"], wanted["path"].combine_chunks()))
    is_same = pc.fill_null(pc.equal(before, current["base_row_id"]), False)
    others = current.filter(pc.invert(pc.is_in(current["path"], added["path"].combine_chunks())))
    return not pc.all(pc.or_(is_same, pc.is_null(before)), min_count=0).as_py() or _have_ids_twice([others, added])


def _have_ids_twice(files: Sequence[pa.Table]) -> bool:
    """Whether two rows of these files (``ADD_FILE``) have the same row id."""
    numbered = pa.concat_tables([with_record_counts(some, ["base_row_id", NUM_RECORDS.name]) for some in files])
    numbered = numbered.filter(pc.and_(pc.is_valid(numbered["base_row_id"]), pc.not_equal(numbered[NUM_RECORDS.name], 0)))
    starts, counts = numbered.sort_by("base_row_id").columns
    return bool(pc.any(pc.greater(pc.add(starts, counts)[:-1], starts[1:])).as_py())


def _without_row_tracking(metadata: Metadata) -> Metadata:
    kept = {
        key: value
        for key, value in metadata.configuration.items()
        if key != ENABLED_PROPERTY and not key.startswith("delta.rowTracking.")
    }
    return replace(metadata, configuration=kept)


def _with_high_water_marks(schema: StructType, target: StructType, latest: StructType) -> StructType:
    """The schema whose identity columns continue after the last value ever assigned. Protocol: "Identity Columns".

    Args:
        schema: The schema as in the log.
        target: The same columns with logical names, as readers see them.
        latest: The columns of the latest version, likewise.
    """
    marks = {physical_name(field): field.metadata.get(_MARK) for field in latest.fields}
    found = (marks.get(physical_name(field)) for field in target.fields)
    return StructType(tuple(map(_with_high_water_mark, schema.fields, found)))


def _with_high_water_mark(field: StructField, mark: Any) -> StructField:
    step, own = field.metadata.get(_STEP), field.metadata.get(_MARK)
    if not isinstance(step, int) or not isinstance(mark, int):
        return field
    further = max if step > 0 else min
    return replace(field, metadata={**field.metadata, _MARK: further(own, mark) if isinstance(own, int) else mark})


def restored_protocol(target: Protocol, latest: Protocol) -> Protocol:
    """The protocol of ``latest`` with every feature of ``target``; never lowered, so that versions in between stay readable."""
    return upgraded(latest, writer_features(target))


def restored_domains(target: Snapshot, latest: Snapshot) -> list[DomainMetadata]:
    """The domains to set: clustering as in ``target``; all others, such as row tracking, stay as in ``latest``."""
    then, now = (snapshot.domains.get(CLUSTERING) for snapshot in (target, latest))
    if then is None and now is None:
        return []
    none = json.dumps({"clusteringColumns": [], "domainName": CLUSTERING}, separators=(",", ":"))
    return [then or DomainMetadata(domain=CLUSTERING, configuration=none)]


def _missing(target: Snapshot, files: pa.Table) -> pa.Array:
    """The data files and files of deletion vectors that no longer exist. Raises ``PathOutsideTableError``."""
    check_contained(target.store, files)
    deletion_vectors = deletion_vector_files(files["deletion_vector"], table=target.table_uri)
    named = pa.chunked_array([*files["path"].chunks, *deletion_vectors.chunks], pa.string())
    return missing_files(target.store, pa.chunked_array([named.unique()]))


def _unreadable(files: pa.Table, gone: pa.Array) -> pa.Table:
    """The files that are gone, or whose deletion vectors are."""
    if not len(gone):
        return files.slice(0, 0)
    lost = set(gone.to_pylist())
    without_deletion_vector = [
        descriptor is not None and deletion_vector_path(descriptor) in lost
        for descriptor in files["deletion_vector"].to_pylist()
    ]
    return files.filter(pc.or_(pc.is_in(files["path"], gone), pa.chunked_array([without_deletion_vector], pa.bool_())))


def _bytes(files: pa.Table) -> int:
    return int(pc.sum(files["size"], min_count=0).as_py())


def _time_text(timestamp: int | str | None) -> str | None:
    if not isinstance(timestamp, int):
        return timestamp
    return datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")
