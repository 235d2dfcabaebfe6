"""CLONE: a new table that shares another table's files, or has copies of them.

Follows ``CloneTableBase`` of Delta Spark. A shallow clone references its source's files by absolute URIs and does not own them:
its own vacuum never deletes them, but a vacuum of the source may, so protect the cloned version there. A deep clone owns its
files and does not depend on its source.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import NO_ADDS, DomainMetadata, Metadata, Origin, Protocol, SetTransaction, removes_of
from airflow_delta.core.errors import (
    AppendOnlyTableError,
    CloneTargetNotEmptyError,
    InvalidStatementError,
    TableExistsError,
    UnsupportedStorageError,
)
from airflow_delta.core.log.managed_commits import identifying_properties
from airflow_delta.core.operations.absolute_paths import absolute_deletion_vectors, absolute_paths, encoded_root
from airflow_delta.core.operations.clone_sources import register_clone
from airflow_delta.core.operations.copied_files import as_copied, check_copies, files_to_copy
from airflow_delta.core.operations.file_copier import FileCopier
from airflow_delta.core.operations.loaded_files import copy_loaded_files
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.operations.unneeded_files import check_contained
from airflow_delta.core.schema.column_mapping import mapping_mode
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import CreateMode
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.object_location import ObjectLocation
from airflow_delta.core.storage.staging_area import StagingArea
from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.core.table_changes.definition import with_row_tracking_columns
from airflow_delta.core.table_changes.definition_rules import check_definition
from airflow_delta.core.table_changes.properties import (
    RequestedProperties,
    check_timestamps_kept,
    requested,
    required_by_catalog,
)
from airflow_delta.core.table_features.feature import CATALOG_MANAGED, CLUSTERING, writer_features
from airflow_delta.core.table_features.iceberg_compat import compat_versions
from airflow_delta.core.table_features.protocol import at_least, needed_features, upgraded, without
from airflow_delta.core.table_features.support import ROW_FEATURES, check_writable
from airflow_delta.core.transaction.commit_result import CommitResult
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from airflow_delta.core.transaction.table_properties import is_append_only

_logger = logging.getLogger(__name__)

# Properties about the source's own history, which the clone does not share.
_OF_THE_SOURCE = frozenset(
    {
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.requireCheckpointProtectionBeforeVersion",
    }
)
# Rows of the clone get new ids, so it must not read the row id columns that the source wrote into the files.
_ROW_ID_COLUMNS = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneResult:
    """The outcome of a clone.

    Attributes:
        version: Version of the clone. If an existing table was left unchanged, its version; in a dry run without a table, -1.
        source_version: The version that was cloned.
        files: Number of the source's data files.
        bytes: Size of these files, in bytes.
        copied_files: Number of files copied: 0 for a shallow clone, all for a deep one.
        copied_bytes: Size of the copied files, in bytes.
        removed_files: Number of data files of the table that was replaced.
        removed_bytes: Size of these files, in bytes.
        created: Whether a commit was made.
        unregistered: Why readers need the source in their ``allowed_prefixes`` (see ``register_clone``); None if they do not.
        commit: The commit with the results of its hooks; None if no commit was made.
    """

    version: int
    source_version: int
    files: int
    bytes: int
    copied_files: int = 0
    copied_bytes: int = 0
    removed_files: int = 0
    removed_bytes: int = 0
    created: bool = True
    unregistered: str | None = None
    commit: CommitResult | None = field(default=None, compare=False, repr=False)

    def metrics(self) -> dict[str, int]:
        """Delta's operation metrics."""
        return {
            "sourceTableSize": self.bytes,
            "sourceNumOfFiles": self.files,
            "numRemovedFiles": self.removed_files,
            "numCopiedFiles": self.copied_files,
            "removedFilesSize": self.removed_bytes,
            "copiedFilesSize": self.copied_bytes,
        }


def shallow_clone(
    source: Snapshot,
    target: TableLog,
    *,
    mode: CreateMode,
    properties: Mapping[str, str],
    dry_run: bool = False,
    origin: Origin,
) -> CloneResult:
    """Make ``target`` a table with the schema, properties and rows of ``source``, without copying files.

    The clone has its own identity and history. Row ids are assigned anew.

    Args:
        source: The version to clone.
        target: The log of the clone.
        mode: What to do if the target exists: fail, leave it unchanged, or replace it if it is empty (its history stays).
        properties: Table properties that override the source's.
        dry_run: Only report what would be done.
        origin: The task run that requests it.

    Raises:
        TableExistsError: The target exists, and the mode is ``error``; in any mode, another writer created it meanwhile.
        CloneTargetNotEmptyError: The target has files, and the mode is ``replace``.
        UnsupportedStorageError: Source and target are on different kinds of storage, so that readers of one cannot read the
            other.
        InvalidStatementError: A property would change how columns are mapped.
        InvalidTablePropertyError: A property does not exist, or its value is invalid.
        InvalidTableDefinitionError: The properties do not allow such a table.
        ConcurrentWriteError: Another writer committed to the target meanwhile.
        UnsupportedWriterFeatureError: The source requires an unsupported writer feature.
        PathOutsideTableError: The source names a file outside of its root.
    """
    _check_same_storage(source.table_uri, target.table_uri)
    return _clone(source, target, mode=mode, properties=properties, copier=None, dry_run=dry_run, origin=origin)


def deep_clone(
    source: Snapshot,
    target: TableLog,
    *,
    mode: CreateMode,
    properties: Mapping[str, str],
    copier: FileCopier,
    dry_run: bool = False,
    origin: Origin,
) -> CloneResult:
    """Make ``target`` a table as ``shallow_clone`` does, but with copies of the source's files, so that it is independent.

    Statistics, tags and deletion vectors are copied with the files, and so is the record of files that COPY INTO has loaded.
    Source and target may be on different kinds of storage. A killed run leaves copies that no version references; a vacuum of
    the target deletes them.

    Args:
        source: The version to clone.
        target: The log of the clone.
        mode: What to do if the target exists: fail, leave it unchanged, or replace it (its history stays). If it is replaced,
            all files are copied again.
        properties: Table properties that override the source's.
        copier: Copies the files.
        dry_run: Only report what would be done.
        origin: The task run that requests it.

    Raises:
        TableExistsError: The target exists, and the mode is ``error``; in any mode, another writer created it meanwhile.
        AppendOnlyTableError: The table to be replaced has rows and is append-only.
        MissingDataFileError: A file of the source is gone, for example by a vacuum during the copying.
        CorruptDataFileError: A file of the source does not have the size in its log.
        As ``shallow_clone`` and ``FileCopier``.
    """
    return _clone(source, target, mode=mode, properties=properties, copier=copier, dry_run=dry_run, origin=origin)


def _clone(
    source: Snapshot,
    target: TableLog,
    *,
    mode: CreateMode,
    properties: Mapping[str, str],
    copier: FileCopier | None,
    dry_run: bool,
    origin: Origin,
) -> CloneResult:
    """Clone with copies of the files, or, without a copier, sharing the source's files."""
    check_writable(source.table_uri, source.protocol, source.metadata)
    files = source.files()
    check_contained(source.store, files)
    result = CloneResult(version=-1, source_version=source.version, files=len(files), bytes=_bytes(files), created=False)
    there = target.snapshot() if target.exists() else None
    if there:
        result = replace(result, version=there.version)
        if mode == "error":
            raise TableExistsError(table=target.table_uri, version=there.version)
        if mode == "ignore":
            return result
    replaced = _replaced_files(there, copies=copier is not None)
    wanted = requested(properties)
    if there:
        check_timestamps_kept(there.protocol, wanted.configuration)
    kept = required_by_catalog(identifying_properties(target.store), there.protocol if there else None)
    metadata = cloned_metadata(
        source.metadata,
        there.metadata if there else None,
        {**wanted.configuration, **kept},
        left_out=identifying_properties(source.store),
        now=target.clock(),
    )
    check_definition(target.table_uri, metadata, source.metadata)
    protocol = cloned_protocol(source.protocol, there.protocol if there else None, metadata, wanted)
    if dry_run:
        return result
    result = replace(result, created=True, removed_files=len(replaced), removed_bytes=_bytes(replaced))
    transaction = _transaction(target, there, metadata, protocol)

    def commit(adds: pa.Table, result: CloneResult, loaded: Iterable[SetTransaction] = ()) -> CloneResult:
        committed = transaction.commit(
            adds=adds,
            removes=removes_of(replaced, deletion_timestamp=target.clock(), data_change=True),
            transactions=loaded,
            domains=cloned_domains(source, there),
            operation=Operation(
                name="CLONE",
                parameters={
                    "source": f"delta.`{encoded_root(source.table_uri)}`",
                    "sourceVersion": source.version,
                    "isShallow": copier is None,
                },
            ),
            metrics=result.metrics(),
            origin=origin,
            resolve_conflicts=False,
        )
        return replace(result, version=committed.version, commit=committed)

    if copier is None:
        result = replace(result, unregistered=_register(source.store, target.store))
        return commit(shared_files(files, source.table_uri), result)
    result = replace(result, copied_files=result.files, copied_bytes=result.bytes)
    with StagingArea(target.store) as staging:
        adds = _copied(source, files, target, staging.name, copier) if len(files) else files
        loaded = copy_loaded_files(source, target.store, target.clock())
        staging.keep()
        result = commit(with_new_row_ids(adds), result, loaded)
        staging.settle(unused=result.commit is not None and result.commit.already_committed)
    return result


def _replaced_files(there: Snapshot | None, *, copies: bool) -> pa.Table:
    """The files (``ADD_FILE``) of the table to be replaced.

    Raises:
        CloneTargetNotEmptyError: It has files, and the clone copies no files.
        AppendOnlyTableError: It has files, and is append-only.
    """
    files = there.files() if there else NO_ADDS
    if there and len(files):
        if not copies:
            raise CloneTargetNotEmptyError(table=there.table_uri, files=len(files))
        if is_append_only(there.metadata.configuration):
            raise AppendOnlyTableError(table=there.table_uri)
    return files


def _transaction(target: TableLog, there: Snapshot | None, metadata: Metadata, protocol: Protocol) -> OptimisticTransaction:
    """A transaction that counts row constraints as enforced, which the writers of the cloned rows did."""
    if not there:
        return target.create_transaction(metadata, protocol, enforces=ROW_FEATURES)
    transaction = target.start_transaction(there, enforces=ROW_FEATURES)
    transaction.set_metadata(metadata)
    transaction.set_protocol(protocol)
    transaction.read_whole_table()
    return transaction


def _register(source: LogStore, clone: LogStore) -> str | None:
    unregistered = register_clone(source, clone)
    if unregistered:
        _logger.warning("%s: add %s to the allowed_prefixes of readers: %s", clone.table_uri, source.table_uri, unregistered)
    return unregistered


def _copied(source: Snapshot, files: pa.Table, target: TableLog, folder: str, copier: FileCopier) -> pa.Table:
    """Copy the files; returns them (``ADD_FILE``) with the names of their copies."""
    copied = copier.copy(source.store, target.store, folder, files_to_copy(files, table=source.table_uri))
    check_copies(target.store, folder, copied)
    return as_copied(files, copied, folder, table=source.table_uri)


def cloned_metadata(
    source: Metadata, there: Metadata | None, properties: Mapping[str, str], *, left_out: Collection[str] = (), now: int
) -> Metadata:
    """The clone's metadata.

    Args:
        source: Metadata of the source.
        there: Metadata of the table to be replaced, whose identity, name and description are kept.
        properties: Table properties that override the source's.
        left_out: Names of properties that only apply to the source.
        now: Milliseconds since the epoch.

    Raises:
        InvalidStatementError: A property would change how columns are mapped, or what existing files must contain.
    """
    configuration = {
        name: value for name, value in source.configuration.items() if name not in _OF_THE_SOURCE and name not in left_out
    }
    configuration |= {
        name: f"{prefix}{uuid.uuid4()}" for name, prefix in _ROW_ID_COLUMNS.items() if name in source.configuration
    }
    configuration = with_row_tracking_columns({**configuration, **properties})
    if mapping_mode(configuration) is not mapping_mode(source.configuration):
        raise InvalidStatementError(statement="CLONE", detail="a clone has its source's column mapping; it cannot be set")
    if set(compat_versions(configuration)) - set(compat_versions(source.configuration)):
        detail = "a clone has its source's files; alter the source, so that they are checked for Iceberg compatibility"
        raise InvalidStatementError(statement="CLONE", detail=detail)
    return replace(
        source,
        id=there.id if there else str(uuid.uuid4()),
        name=there.name if there else None,
        description=there.description if there else None,
        configuration=configuration,
        created_time=now,
    )


def cloned_protocol(source: Protocol, there: Protocol | None, metadata: Metadata, wanted: RequestedProperties) -> Protocol:
    """The source's protocol, extended by what metadata and properties require.

    It is never lower than that of the table to be replaced. The feature of catalog-managed tables is not inherited.
    """
    for feature in CATALOG_MANAGED & writer_features(source):
        source = without(source, feature)
    features = needed_features(metadata) | wanted.features
    protocol = upgraded(there, writer_features(source) | features) if there else upgraded(source, features)
    return at_least(protocol, reader_version=wanted.reader_version, writer_version=wanted.writer_version)


def cloned_domains(source: Snapshot, there: Snapshot | None) -> list[DomainMetadata]:
    """The domain actions that take over the source's clustering columns and end those of the table to be replaced."""
    cloned, ended = source.domains.get(CLUSTERING), there.domains.get(CLUSTERING) if there else None
    if cloned:
        return [cloned]
    return [replace(ended, removed=True)] if ended else []


def shared_files(files: pa.Table, source_uri: str) -> pa.Table:
    """The source's files (``ADD_FILE``) as a shallow clone references them: by absolute URIs, and without row ids.

    Raises:
        CorruptLogError: A deletion vector cannot be located.
    """
    columns = {
        "path": absolute_paths(files["path"], source_uri),
        "deletion_vector": absolute_deletion_vectors(files["deletion_vector"], source_uri),
    }
    renamed = pa.table([columns.get(field.name, files[field.name]) for field in files.schema], schema=files.schema)
    return with_new_row_ids(renamed)


def with_new_row_ids(files: pa.Table) -> pa.Table:
    """The files (``ADD_FILE``) as new data, so that the commit assigns new row ids."""
    columns = {
        "data_change": pa.repeat(pa.scalar(True), len(files)),
        "base_row_id": pa.nulls(len(files), pa.int64()),
        "default_row_commit_version": pa.nulls(len(files), pa.int64()),
    }
    return pa.table([columns.get(field.name, files[field.name]) for field in files.schema], schema=files.schema)


def _check_same_storage(source: str, target: str) -> None:
    kinds = [_kind_of_storage(uri) for uri in (source, target)]
    if kinds[0] != kinds[1] or kinds[0] == "memory":
        detail = f"a clone of {source} shares its files, so both must be on the same kind of storage"
        raise UnsupportedStorageError(uri=target, detail=detail)


def _kind_of_storage(uri: str) -> str:
    location = ObjectLocation.from_uri(uri)
    return location.service if location else scheme_of(uri)


def _bytes(files: pa.Table) -> int:
    return int(pc.sum(files["size"], min_count=0).as_py())
