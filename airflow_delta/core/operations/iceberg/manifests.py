"""Manifests: lists of data files, each small enough to be held in memory.

An existing manifest is never changed: if a file in it is removed, a new manifest without that file is written.
Specification: https://iceberg.apache.org/spec/, "Manifests", "Manifest Lists".
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    UNASSIGNED_SEQ,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    construct_partition_summaries,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, StructType

from airflow_delta.core.errors import DeltaError
from airflow_delta.core.foreign_values import printable
from airflow_delta.core.operations.iceberg.data_files import CHUNK
from airflow_delta.core.operations.iceberg.table_files import FOLDER, TableFileIO

FORMAT_VERSION: Final = 2
MOST_SMALL: Final = 100
"""Number of small manifests from which on they are merged."""

_SMALL = CHUNK // 2
_BLOCK = 500
"""Entries compressed together in an Avro block."""
_CODEC: Final = "deflate"

_READ_AT_ONCE: Final = 8
_MOST_SEARCHED: Final = 100
_SYNC_BYTES: Final = 16  # sync marker after each block of an Avro file

_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

_Status = ManifestEntryStatus

_logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Manifests:
    """Writes the manifests of one snapshot; keeps track of them, in case a concurrent snapshot wins.

    Attributes:
        io: Writes the files.
        location: The table's root.
        schema: The table's columns, including those of former partition specs.
        specs: All partition specs of the table, by id.
        snapshot_id: Id of the snapshot.
        written: The files written so far.
        found: Names of data files that ``without`` has found.
    """

    io: TableFileIO
    location: str
    schema: Schema
    specs: dict[int, PartitionSpec]
    snapshot_id: int
    written: list[str] = field(default_factory=list)
    found: set[str] = field(default_factory=set)

    def added(self, files: Iterable[DataFile], spec_id: int) -> list[ManifestFile]:
        """Write manifests of new files."""
        entries = (
            ManifestEntry.from_args(status=_Status.ADDED, snapshot_id=self.snapshot_id, sequence_number=None, data_file=file)
            for file in files
        )
        return list(self._write(entries, spec_id))

    def without(self, manifests: Sequence[ManifestFile], gone: frozenset[str]) -> list[ManifestFile]:
        """These manifests without the named files; manifests that contain none of them are reused unchanged.

        The newest manifests are searched first, several at once, and few more than needed to find all files.
        """
        kept: list[ManifestFile] = []
        remaining = iter(sorted(manifests, key=lambda each: each.sequence_number, reverse=True))
        with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
            while len(self.found) < len(gone) and (some := list(islice(remaining, _READ_AT_ONCE))):
                names = [name.encode() for name in gone - self.found]
                searched = pool.map(lambda each, names=names: self._may_name(each, names), some)
                for manifest, may_name in zip(some, searched, strict=True):
                    kept += self._without(manifest, gone) if may_name else [manifest]
        return [*kept, *remaining]

    def _without(self, manifest: ManifestFile, gone: frozenset[str]) -> list[ManifestFile]:
        entries = manifest.fetch_manifest_entry(self.io)
        named = {entry.data_file.file_path for entry in entries} & gone
        if not named:
            return [manifest]
        self.found |= named
        marked = (_entry(entry, self.snapshot_id, is_gone=entry.data_file.file_path in named) for entry in entries)
        return list(self._write(marked, manifest.partition_spec_id))

    def _may_name(self, manifest: ManifestFile, names: Sequence[bytes]) -> bool:
        """Whether the manifest's bytes contain any of these names; checked without decoding its entries."""
        if len(names) > _MOST_SEARCHED:
            return True
        with AvroFile[Record](self.io.new_input(manifest.manifest_path)) as file:
            codec = file.header.compression_codec()
            while True:
                try:
                    file.decoder.read_int()  # number of entries in the block
                except EOFError:
                    return False
                block = file.decoder.read_bytes()
                content = codec.decompress(block) if codec else block
                if any(name in content for name in names):
                    return True
                file.decoder.skip(_SYNC_BYTES)

    def merged(self, manifests: Sequence[ManifestFile], spec_id: int) -> list[ManifestFile]:
        """These manifests; many small ones of the current partition spec are merged into a few large ones."""
        small = [each for each in manifests if each.partition_spec_id == spec_id and _live_files(each) < _SMALL]
        old = [each for each in small if each.added_snapshot_id != self.snapshot_id]
        if len(small) <= MOST_SMALL:
            return list(manifests)
        entries = (_entry(entry, self.snapshot_id) for manifest in old for entry in manifest.fetch_manifest_entry(self.io))
        return [*(each for each in manifests if each not in old), *self._write(entries, spec_id)]

    def write_list(self, manifests: Sequence[ManifestFile], *, parent: int | None, sequence_number: int) -> str:
        """Write the manifest list of a snapshot; returns its name."""
        name = self._name(f"snap-{self.snapshot_id}")
        with write_manifest_list(
            format_version=FORMAT_VERSION,
            output_file=self.io.new_output(name),
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent,
            sequence_number=sequence_number,
            avro_compression=_CODEC,
        ) as writer:
            writer.add_manifests(list(manifests))
        return name

    def discard(self) -> None:
        """Delete what was written and start over, as the snapshot was not made. Files that remain are referenced by nothing."""
        try:
            self.io.delete_all(self.written)
        except (OSError, DeltaError) as error:
            _logger.warning("Iceberg manifests that nothing names stay: %s", printable(repr(error)))
        self.written.clear()
        self.found.clear()

    def _write(self, entries: Iterable[ManifestEntry], spec_id: int) -> Iterator[ManifestFile]:
        entries = iter(entries)
        for first in entries:
            yield self._manifest(chain([first], islice(entries, CHUNK - 1)), self.specs[spec_id])

    def _manifest(self, entries: Iterator[ManifestEntry], spec: PartitionSpec) -> ManifestFile:
        files, rows = dict.fromkeys(_Status, 0), dict.fromkeys(_Status, 0)
        partitions, numbers = [], []
        output = self.io.new_output(self._name("manifest"))
        with AvroOutputFile[ManifestEntry](
            output_file=output,
            file_schema=self._entries_of(spec, FORMAT_VERSION),
            record_schema=self._entries_of(spec, DEFAULT_READ_VERSION),
            schema_name="manifest_entry",
            metadata=self._described(spec),
        ) as writer:
            while block := list(islice(entries, _BLOCK)):
                writer.write_block(block)
                for entry in block:
                    files[entry.status] += 1
                    rows[entry.status] += entry.data_file.record_count
                    partitions.append(entry.data_file.partition)
                    if entry.status != _Status.DELETED and entry.sequence_number is not None:
                        numbers.append(entry.sequence_number)
        return ManifestFile.from_args(
            manifest_path=output.location,
            manifest_length=len(output),
            partition_spec_id=spec.spec_id,
            content=ManifestContent.DATA,
            sequence_number=UNASSIGNED_SEQ,
            min_sequence_number=min(numbers, default=UNASSIGNED_SEQ),
            added_snapshot_id=self.snapshot_id,
            added_files_count=files[_Status.ADDED],
            existing_files_count=files[_Status.EXISTING],
            deleted_files_count=files[_Status.DELETED],
            added_rows_count=rows[_Status.ADDED],
            existing_rows_count=rows[_Status.EXISTING],
            deleted_rows_count=rows[_Status.DELETED],
            partitions=construct_partition_summaries(spec, self.schema, partitions),
        )

    def _entries_of(self, spec: PartitionSpec, version: int) -> Schema:
        fields = (_with_avro_name(field) for field in spec.partition_type(self.schema).fields)
        file = data_file_with_partition(format_version=version, partition_type=StructType(*fields))  # type: ignore[arg-type]
        return manifest_entry_schema_with_data_file(format_version=version, data_file=file)  # type: ignore[arg-type]

    def _described(self, spec: PartitionSpec) -> dict[str, str]:
        return {
            "schema": self.schema.model_dump_json(),
            "schema-id": str(self.schema.schema_id),
            "partition-spec": json.dumps(json.loads(spec.model_dump_json())["fields"]),
            "partition-spec-id": str(spec.spec_id),
            "format-version": str(FORMAT_VERSION),
            "content": "data",
            "avro.codec": _CODEC,
        }

    def _name(self, kind: str) -> str:
        name = f"{self.location}/{FOLDER}/{kind}-{uuid.uuid4()}.avro"
        self.written.append(name)
        return name


def _entry(entry: ManifestEntry, snapshot_id: int, *, is_gone: bool = False) -> ManifestEntry:
    """The manifest entry of a file that existed before."""
    return ManifestEntry.from_args(
        status=_Status.DELETED if is_gone else _Status.EXISTING,
        snapshot_id=snapshot_id if is_gone else entry.snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def _with_avro_name(partition: NestedField) -> NestedField:
    """The field under a name that Avro allows, because DuckDB's reader aborts on others; readers use the field's id."""
    if _AVRO_NAME.fullmatch(partition.name):
        return partition
    return partition.model_copy(update={"name": f"partition_{partition.field_id}"})


def names_files(manifest: ManifestFile) -> bool:
    """Whether the manifest lists any file that is still live."""
    return manifest.has_added_files() or manifest.has_existing_files()


def _live_files(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def live_files(manifests: Iterable[ManifestFile]) -> tuple[int, int]:
    """Number of live files and rows in these manifests."""
    listed = list(manifests)
    rows = sum((each.added_rows_count or 0) + (each.existing_rows_count or 0) for each in listed)
    return sum(map(_live_files, listed)), rows
