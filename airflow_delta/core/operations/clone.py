"""CLONE: a new table on the files of another one.

Follows ``CloneTableBase`` of Delta Spark (SHALLOW CLONE). The clone names the files of its source by absolute URIs and owns
none of them: its own vacuum never deletes them, but a vacuum of the source may, so protect the cloned version there.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import DomainMetadata, Metadata, Origin, Protocol
from airflow_delta.core.errors import CloneTargetNotEmptyError, InvalidStatementError, TableExistsError, UnsupportedStorageError
from airflow_delta.core.operations.absolute_paths import absolute_deletion_vectors, absolute_paths, encoded_root
from airflow_delta.core.operations.clone_sources import register_clone
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.operations.unneeded_files import check_contained
from airflow_delta.core.schema.column_mapping import mapping_mode
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import CreateMode
from airflow_delta.core.storage.object_location import ObjectLocation
from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.core.table_changes.clustering import CLUSTERING
from airflow_delta.core.table_changes.properties import RequestedProperties, requested
from airflow_delta.core.table_features.feature import writer_features
from airflow_delta.core.table_features.iceberg_compat import compat_versions
from airflow_delta.core.table_features.protocol import at_least, needed_features, upgraded
from airflow_delta.core.table_features.support import ROW_FEATURES, check_writable
from airflow_delta.core.transaction.commit_result import CommitResult
from airflow_delta.core.transaction.operation import Operation

_logger = logging.getLogger(__name__)

# The source's own history, of which the clone has none.
_OF_THE_SOURCE = frozenset(
    {
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.requireCheckpointProtectionBeforeVersion",
    }
)
# The clone's rows get new ids, so it must not read those that the source wrote into the files.
_ROW_ID_COLUMNS = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneResult:
    """What a clone did.

    Attributes:
        version: Version of the clone; of the table that was there where that was left (-1 for none, in a dry run).
        source_version: The version that was cloned.
        files: Number of files that both tables share.
        bytes: Their size.
        created: Whether anything was committed.
        unregistered: Why readers need the source among their ``allowed_prefixes`` (``register_clone``); None where they do not.
        commit: The commit and what followed it; None where there was none.
    """

    version: int
    source_version: int
    files: int
    bytes: int
    created: bool = True
    unregistered: str | None = None
    commit: CommitResult | None = field(default=None, compare=False, repr=False)


def shallow_clone(
    source: Snapshot,
    target: TableLog,
    *,
    mode: CreateMode,
    properties: Mapping[str, str],
    dry_run: bool = False,
    origin: Origin,
) -> CloneResult:
    """Make ``target`` a table with the schema, the properties and the rows of ``source``, without copying a file.

    It gets an identity and a history of its own. Row ids are given anew.

    Args:
        source: The version to clone.
        target: Where the clone comes to lie.
        mode: What to do where there is a table: fail, leave it as it is, or take the place of an empty one (its history stays).
        properties: Table properties that differ from the source's.
        dry_run: Only say what would be done.
        origin: The run that requests it.

    Raises:
        TableExistsError: There is a table, and the mode is ``error``.
        CloneTargetNotEmptyError: There is a table with files, and the mode is ``replace``.
        UnsupportedStorageError: The two lie on different kinds of storage, where no reader of one reads the other.
        InvalidStatementError: A property would change how columns are mapped.
        InvalidTablePropertyError: The property does not exist, or it cannot have the value.
        ConcurrentWriteError: Another writer committed to the target meanwhile.
        UnsupportedWriterFeatureError: The source needs writers that know more.
        PathOutsideTableError: The source names a file outside of it.
    """
    _check_same_storage(source.table_uri, target.table_uri)
    check_writable(source.table_uri, source.protocol, source.metadata)
    files = source.files()
    check_contained(source.store, files)
    result = CloneResult(version=0, source_version=source.version, files=len(files), bytes=_bytes(files))
    there = target.snapshot() if target.exists() else None
    if there and mode == "error":
        raise TableExistsError(table=target.table_uri, version=there.version)
    if there and mode == "ignore":
        return replace(result, version=there.version, created=False)
    if there and len(there.files()):
        raise CloneTargetNotEmptyError(table=target.table_uri, files=len(there.files()))
    wanted = requested(properties, target.table_uri)
    metadata = cloned_metadata(source.metadata, there.metadata if there else None, wanted.configuration, now=target.clock())
    protocol = cloned_protocol(source.protocol, there.protocol if there else None, metadata, wanted)
    if dry_run:
        return replace(result, version=there.version if there else -1, created=False)
    unregistered = register_clone(source.store, target.store)
    if unregistered:
        _logger.warning("%s: add %s to the allowed_prefixes of readers: %s", target.table_uri, source.table_uri, unregistered)
    # The constraints on rows were enforced by those who wrote them.
    if there:
        transaction = target.start_transaction(there, enforces=ROW_FEATURES)
        transaction.set_metadata(metadata)
        transaction.set_protocol(protocol)
        transaction.read_whole_table()
    else:
        transaction = target.create_transaction(metadata, protocol, enforces=ROW_FEATURES)
    committed = transaction.commit(
        adds=cloned_files(files, source.table_uri),
        domains=cloned_domains(source, there),
        operation=Operation(
            name="CLONE",
            parameters={"source": f"delta.`{encoded_root(source.table_uri)}`", "sourceVersion": source.version},
        ),
        metrics={
            "sourceTableSize": result.bytes,
            "sourceNumOfFiles": result.files,
            "numRemovedFiles": 0,
            "numCopiedFiles": 0,
            "removedFilesSize": 0,
            "copiedFilesSize": 0,
        },
        origin=origin,
        resolve_conflicts=False,
    )
    return replace(result, version=committed.version, unregistered=unregistered, commit=committed)


def cloned_metadata(source: Metadata, there: Metadata | None, properties: Mapping[str, str], *, now: int) -> Metadata:
    """The clone's metadata.

    Args:
        source: Of the source.
        there: Of the empty table whose place the clone takes: its identity, name and description stay.
        properties: Table properties that differ from the source's.
        now: Milliseconds since the epoch.

    Raises:
        InvalidStatementError: A property would change how columns are mapped, or what their files must hold.
    """
    configuration = {name: value for name, value in source.configuration.items() if name not in _OF_THE_SOURCE}
    configuration |= {
        name: f"{prefix}{uuid.uuid4()}" for name, prefix in _ROW_ID_COLUMNS.items() if name in source.configuration
    }
    configuration |= properties
    if mapping_mode(configuration) is not mapping_mode(source.configuration):
        raise InvalidStatementError(
            statement="SHALLOW CLONE", detail="a clone has its source's column mapping; it cannot be set"
        )
    if set(compat_versions(configuration)) - set(compat_versions(source.configuration)):
        detail = "a clone has its source's files; alter the source, so that they are checked for Iceberg compatibility"
        raise InvalidStatementError(statement="SHALLOW CLONE", detail=detail)
    return replace(
        source,
        id=there.id if there else str(uuid.uuid4()),
        name=there.name if there else None,
        description=there.description if there else None,
        configuration=configuration,
        created_time=now,
    )


def cloned_protocol(source: Protocol, there: Protocol | None, metadata: Metadata, wanted: RequestedProperties) -> Protocol:
    """The source's protocol with what metadata and properties require.

    It is never less than that of the table whose place the clone takes.
    """
    features = needed_features(metadata) | wanted.features
    protocol = upgraded(there, writer_features(source) | features) if there else upgraded(source, features)
    return at_least(protocol, reader_version=wanted.reader_version, writer_version=wanted.writer_version)


def cloned_domains(source: Snapshot, there: Snapshot | None) -> list[DomainMetadata]:
    """The source's clustering columns; those of the table whose place the clone takes end."""
    cloned, ended = source.domains.get(CLUSTERING), there.domains.get(CLUSTERING) if there else None
    if cloned:
        return [cloned]
    return [replace(ended, removed=True)] if ended else []


def cloned_files(files: pa.Table, source_uri: str) -> pa.Table:
    """The source's files (``ADD_FILE``) as the clone names them: by absolute URIs, and without row ids.

    Raises:
        CorruptLogError: A deletion vector cannot be located.
    """
    columns = {
        "path": absolute_paths(files["path"], source_uri),
        "deletion_vector": absolute_deletion_vectors(files["deletion_vector"], source_uri),
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
