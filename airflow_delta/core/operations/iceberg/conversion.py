"""Iceberg metadata of a version of a Delta table, written after a commit, incrementally from the last conversion.

The data files are shared; only metadata is written. A metadata file takes the next free number atomically: of two concurrent
writers one wins, and the other starts over. If a conversion is lost, the next one makes up for it.
Specification: https://iceberg.apache.org/spec/, "Table Metadata", "File System Tables".
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyiceberg.manifest import ManifestFile
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.snapshots import MetadataLogEntry, Operation, Snapshot
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from airflow_delta.core.actions import CommitActions, Metadata
from airflow_delta.core.errors import DeltaError, IcebergConversionError
from airflow_delta.core.foreign_values import printable
from airflow_delta.core.operations.iceberg.bounds import NOT_EXACT
from airflow_delta.core.operations.iceberg.changed_files import ChangedFiles, files_since
from airflow_delta.core.operations.iceberg.conversion_result import IcebergConversion
from airflow_delta.core.operations.iceberg.data_files import FileConverter, absolute_names, check_convertible
from airflow_delta.core.operations.iceberg.manifests import Manifests, live_files, names_files
from airflow_delta.core.operations.iceberg.schema import iceberg_schema, partition_spec
from airflow_delta.core.operations.iceberg.table_files import (
    FOLDER,
    UNREADABLE,
    TableFileIO,
    create_metadata,
    latest_number,
    location_of,
    metadata_path,
    point_to,
    read_metadata,
)
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.schema import parse_schema
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.transaction.table_properties import deleted_file_retention

MOST_KEPT: Final = 100
"""Most snapshots, and most metadata files, that are kept."""

_TRIES = 5
_MOST_SNAPSHOTS = 10 * MOST_KEPT
_MOST_MANIFESTS = 10_000
_MOST_DIGITS = 18  # digits of a version
_MOST_ID = (1 << 31) - 1_000  # Iceberg reserves the highest 200 ids
_MOST_SEQUENCE = 1 << 62
_VERSION, _TIME, _TABLE_ID = "delta-version", "delta-timestamp", "airflow_delta.table-id"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedVersion:
    """A version of a Delta table to be converted.

    Attributes:
        version: Number of the version.
        timestamp: Time of its commit, in milliseconds since the epoch.
        metadata: The table's metadata at this version.
        actions: The actions of its commit, if available.
    """

    version: int
    timestamp: int
    metadata: Metadata
    actions: CommitActions | None = None


def convert(log: TableLog, wanted: ConvertedVersion) -> IcebergConversion:
    """Write Iceberg metadata of this version, unless this or a later version was converted already.

    Raises:
        IcebergConversionError: Iceberg metadata, as written here, cannot represent the table; or other writers took every
            number tried.
        InvalidPartitionValueError: A partition value is not of its column's type.
        PathOutsideTableError: The log names a file where the table may not read, and Iceberg readers would follow it.
        OSError: The storage failed; the conversion after the next commit makes up for it.
    """
    for _ in range(_TRIES):
        number = latest_number(log.store)
        step = _Step.of(log, wanted, read_metadata(log.store, number) if number else None)
        if step.is_done:
            return IcebergConversion(version=wanted.version, number=number, is_new=False)
        metadata, result = step.converted(number + 1)
        if not create_metadata(log.store, number + 1, metadata.model_dump_json().encode()):
            step.manifests.discard()
            continue
        point_to(log.store, number + 1)
        _tidy(log, step, metadata, number + 1)
        _logger.info("%s: Iceberg metadata v%d is of version %d", log.table_uri, number + 1, wanted.version)
        return result
    detail = f"other writers took the next version of the metadata {_TRIES} times"
    raise IcebergConversionError(table=log.table_uri, detail=detail, cure="the next commit converts the table")


@dataclass(frozen=True, kw_only=True)
class _Step:
    """One step from the existing Iceberg metadata to that of a version.

    Attributes:
        log: The table.
        wanted: The version to convert.
        base: The metadata to continue from; None to start over.
        schema: The columns of the version, with their schema id in Iceberg.
        spec: The partitioning, with its spec id.
        manifests: Writes manifests.
    """

    log: TableLog
    wanted: ConvertedVersion
    base: TableMetadataV2 | None
    schema: Schema
    spec: PartitionSpec
    manifests: Manifests

    @classmethod
    def of(cls, log: TableLog, wanted: ConvertedVersion, found: TableMetadata | None) -> _Step:
        columns, location, table = parse_schema(wanted.metadata.schema_string), location_of(log.store), log.table_uri
        schema = iceberg_schema(columns, table=table)
        spec = partition_spec(columns, wanted.metadata.partition_columns, table=table)
        base = _continued(found, wanted.metadata.id, location, schema, spec)
        if base is not None and wanted.version < _version_of(base) and log.refresh().version < _version_of(base):
            base = None  # the log was reset to an earlier state, or the number is forged
        if base is not None:
            same = next((each for each in base.schemas if each == schema), None)
            schema = same or iceberg_schema(columns, table=table, schema_id=1 + max(each.schema_id for each in base.schemas))
            alike = next((each for each in base.partition_specs if each.fields == spec.fields), None)
            spec = alike or PartitionSpec(*spec.fields, spec_id=1 + max(each.spec_id for each in base.partition_specs))
        specs = {each.spec_id: each for each in (*(base.partition_specs if base else ()), spec)}
        manifests = Manifests(
            io=TableFileIO(log.store, location),
            location=location,
            schema=schema,
            specs=specs,
            snapshot_id=uuid.uuid4().int >> 65,
        )
        return cls(log=log, wanted=wanted, base=base, schema=schema, spec=spec, manifests=manifests)

    @property
    def is_done(self) -> bool:
        """Whether this or a later version has been converted already."""
        return self.base is not None and _version_of(self.base) >= self.wanted.version

    def converted(self, number: int) -> tuple[TableMetadataV2, IcebergConversion]:
        """The metadata for this number, and what it contains; all files that it references are written, or none."""
        try:
            return self._converted(number)
        except BaseException:
            self.manifests.discard()
            raise

    def _converted(self, number: int) -> tuple[TableMetadataV2, IcebergConversion]:
        if self.base is not None:
            changed = files_since(self.log, self.wanted.version, _version_of(self.base), self.wanted.actions)
            if changed is not None and (listed := self._with(changed)) is not None:
                return self._metadata(listed, changed, number)
            self.manifests.discard()
        everything = ChangedFiles.all_of(self.log.snapshot(self.wanted.version))
        return self._metadata(self._added(everything), everything, number, is_from_scratch=True)

    def _with(self, changed: ChangedFiles) -> list[ManifestFile] | None:
        """The manifests after the changes; None if former ones cannot be read, or do not list every removed file."""
        try:
            kept = self._kept(changed)
        except UNREADABLE:
            return None
        if kept is None:
            return None
        listed = [*kept, *self._added(changed)]
        try:
            return self.manifests.merged(listed, self.spec.spec_id)
        except UNREADABLE:
            return None

    def _kept(self, changed: ChangedFiles) -> list[ManifestFile] | None:
        current = self.base.current_snapshot() if self.base else None
        manifests = [each for each in current.manifests(self.manifests.io) if names_files(each)] if current else []
        if len(manifests) > _MOST_MANIFESTS:
            raise ValueError(f"{len(manifests)} manifests")
        if not self._are_there(manifests):
            return None
        names = absolute_names(changed.removed, self.manifests.location).to_pylist()
        added = set(absolute_names(changed.added["path"], self.manifests.location).to_pylist()) if names else set()
        kept = self.manifests.without(manifests, frozenset(names)) if names else manifests
        return kept if set(names) - added <= self.manifests.found else None

    def _are_there(self, manifests: Sequence[ManifestFile]) -> bool:
        """Whether all manifests still exist; requests nothing if the last conversion was that of the previous commit.

        While the table property is disabled, a vacuum deletes manifests as unneeded files.
        """
        actions = self.wanted.actions
        if self.base and actions and actions.metadata is None and _version_of(self.base) == self.wanted.version - 1:
            return True
        there = {file.path for file in self.log.store.list_from(FOLDER)}
        return there.issuperset(self.manifests.io.path(each.manifest_path) for each in manifests)

    def _added(self, changed: ChangedFiles) -> list[ManifestFile]:
        check_convertible(changed.added, table=self.log.table_uri)
        FileLocator.from_store(self.log.store).check(changed.added["path"])
        metadata = self.wanted.metadata
        converter = FileConverter(
            location=self.manifests.location,
            schema=parse_schema(metadata.schema_string),
            partition_columns=tuple(metadata.partition_columns),
            spec_id=self.spec.spec_id,
        )
        return self.manifests.added(converter.data_files(changed.added), self.spec.spec_id)

    def _metadata(
        self, listed: Sequence[ManifestFile], changed: ChangedFiles, number: int, *, is_from_scratch: bool = False
    ) -> tuple[TableMetadataV2, IcebergConversion]:
        base, wanted = self.base, self.wanted
        schemas = base.schemas if base else []
        specs, old = base.partition_specs if base else [], base.snapshots if base else []
        parent = base.current_snapshot_id if base else None
        sequence = base.last_sequence_number if base else 0
        time = max([wanted.timestamp, *(snapshot.timestamp_ms for snapshot in old)])
        removed = len(self.manifests.found)
        new = []
        if len(changed.added) or removed or (is_from_scratch and parent is not None):
            sequence += 1
            operation = _operation(changed, removes=bool(removed) or (is_from_scratch and parent is not None))
            new = [self._snapshot(listed, changed, operation, parent=parent, sequence=sequence, time=time)]
        kept = [*self._unexpired(old), *new] if new else old
        document = {
            "location": self.manifests.location,
            "table-uuid": base.table_uuid if base else uuid.uuid4(),
            "last-updated-ms": max(time, self.log.clock(), base.last_updated_ms if base else 0),
            "last-column-id": max(self.schema.highest_field_id, base.last_column_id if base else 0),
            "schemas": [*schemas, *([] if self.schema in schemas else [self.schema])],
            "current-schema-id": self.schema.schema_id,
            "partition-specs": [*specs, *([] if self.spec in specs else [self.spec])],
            "default-spec-id": self.spec.spec_id,
            "last-partition-id": max(
                PARTITION_FIELD_ID_START - 1 + len(self.spec.fields), (base.last_partition_id or 0) if base else 0
            ),
            "properties": self._properties(),
            "current-snapshot-id": new[0].snapshot_id if new else parent,
            "snapshots": kept,
            "snapshot-log": [{"snapshot-id": snapshot.snapshot_id, "timestamp-ms": snapshot.timestamp_ms} for snapshot in kept],
            "metadata-log": self._metadata_log(base, number),
            "sort-orders": [UNSORTED_SORT_ORDER],
            "default-sort-order-id": UNSORTED_SORT_ORDER.order_id,
            "last-sequence-number": sequence,
        }
        metadata = TableMetadataV2.model_validate(document)
        return metadata, IcebergConversion(
            version=wanted.version,
            number=number,
            added_files=len(changed.added),
            removed_files=removed,
            is_from_scratch=is_from_scratch,
        )

    def _snapshot(
        self,
        listed: Sequence[ManifestFile],
        changed: ChangedFiles,
        operation: Operation,
        *,
        parent: int | None,
        sequence: int,
        time: int,
    ) -> Snapshot:
        files, rows = live_files(listed)
        figures = {
            "added-data-files": len(changed.added),
            "deleted-data-files": len(self.manifests.found),
            "total-data-files": files,
            "total-records": rows,
            _VERSION: self.wanted.version,
        }
        document = {
            "snapshot-id": self.manifests.snapshot_id,
            "parent-snapshot-id": parent,
            "sequence-number": sequence,
            "timestamp-ms": time,
            "manifest-list": self.manifests.write_list(listed, parent=parent, sequence_number=sequence),
            "summary": {"operation": operation.value, **{name: str(figure) for name, figure in figures.items()}},
            "schema-id": self.schema.schema_id,
        }
        return Snapshot.model_validate(document)

    def _unexpired(self, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
        """The snapshots to keep beside a new one; a vacuum may have deleted the data files of older ones."""
        since = self.log.clock() - deleted_file_retention(self.wanted.metadata.configuration)
        recent = [snapshot for snapshot in snapshots if snapshot.timestamp_ms >= since]
        return (recent or list(snapshots[-1:]))[-(MOST_KEPT - 1) :]

    def _properties(self) -> dict[str, str]:
        wanted = self.wanted
        return {_VERSION: str(wanted.version), _TIME: str(wanted.timestamp), _TABLE_ID: wanted.metadata.id, **NOT_EXACT}

    def _metadata_log(self, base: TableMetadataV2 | None, number: int) -> list[MetadataLogEntry]:
        if base is None:
            return []
        name = f"{self.manifests.location}/{metadata_path(number - 1)}"
        entry = MetadataLogEntry.model_validate({"metadata-file": name, "timestamp-ms": base.last_updated_ms})
        return [*base.metadata_log, entry][-(MOST_KEPT - 1) :]


def _operation(changed: ChangedFiles, *, removes: bool) -> Operation:
    if not changed.changes_data:
        return Operation.REPLACE
    if not removes:
        return Operation.APPEND
    return Operation.OVERWRITE if len(changed.added) else Operation.DELETE


def _continued(
    found: TableMetadata | None, table_id: str, location: str, schema: Schema, spec: PartitionSpec
) -> TableMetadataV2 | None:
    """The metadata, if this package wrote it, for the same table at the same place, and its columns still exist."""
    if not isinstance(found, TableMetadataV2) or found.location != location or found.properties.get(_TABLE_ID) != table_id:
        return None
    version, ids = found.properties.get(_VERSION, ""), set(schema.field_ids)
    is_ours = version.isascii() and version.isdecimal() and len(version) <= _MOST_DIGITS
    is_partitioned = all(field.source_id in ids for old in found.partition_specs for field in old.fields)
    sources = {(field.field_id, field.source_id) for each in (*found.partition_specs, spec) for field in each.fields}
    is_unambiguous = len(dict(sources)) == len(sources)
    return found if is_ours and is_partitioned and is_unambiguous and _is_sound(found, location) else None


def _is_sound(found: TableMetadataV2, location: str) -> bool:
    """Whether one can continue from this metadata: its numbers leave room for the next, and its snapshots are the table's."""
    ids = [each.schema_id for each in found.schemas] + [each.spec_id for each in found.partition_specs]
    numbers = [*ids, found.last_column_id, found.last_partition_id or 0]
    return (
        len(found.schemas) * len(found.partition_specs) > 0
        and len(found.snapshots) <= _MOST_SNAPSHOTS
        and max(numbers) < _MOST_ID
        and found.last_sequence_number < _MOST_SEQUENCE
        and all(snapshot.manifest_list.startswith(f"{location}/{FOLDER}/") for snapshot in found.snapshots)
    )


def _version_of(base: TableMetadataV2) -> int:
    return int(base.properties[_VERSION])


def _tidy(log: TableLog, step: _Step, metadata: TableMetadataV2, number: int) -> None:
    """Delete files that no kept metadata references. Readers do not depend on this, so a failure is only logged."""
    try:
        log.store.delete([metadata_path(number - MOST_KEPT)] if number > MOST_KEPT else [])
        step.manifests.io.delete_all(_expired_names(step, metadata))
    except (OSError, DeltaError, *UNREADABLE) as error:
        _logger.warning("%s: Iceberg metadata that has expired stays: %s", log.table_uri, printable(repr(error)))


def _expired_names(step: _Step, metadata: TableMetadataV2) -> list[str]:
    kept = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    expired = [snapshot for snapshot in step.base.snapshots if snapshot.snapshot_id not in kept] if step.base else []
    if not expired or not metadata.snapshots:
        return []
    # A manifest is never used again: if the oldest kept snapshot does not reference it, later ones do not either.
    io = step.manifests.io
    needed = {
        manifest.manifest_path for each in (metadata.snapshots[0], metadata.snapshots[-1]) for manifest in each.manifests(io)
    }
    gone = {manifest.manifest_path for snapshot in expired for manifest in snapshot.manifests(io)} - needed
    return [*(snapshot.manifest_list for snapshot in expired), *sorted(gone)]
