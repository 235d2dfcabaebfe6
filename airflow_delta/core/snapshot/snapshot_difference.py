"""The difference between two versions of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.log.action_reconciliation import file_keys
from airflow_delta.core.schema import StructType
from airflow_delta.core.snapshot.snapshot import Snapshot

_COMPARED = ("path", "size", "deletion_vector", "num_records")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTotals:
    """Totals over a set of files.

    Attributes:
        rows: Rows not marked deleted; None if the statistics of a file lack the number.
    """

    files: int
    bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDifference:
    """What changed between two versions.

    Attributes:
        before: The one version.
        after: The other version.
        added: Files that only ``after`` has; a file whose deletion vector changed counts on both sides.
        removed: Files that only ``before`` has.
        columns: Changed columns, as lines such as ``+ day date``, ``- note string``, ``~ id int -> bigint``.
        properties: Changed properties, as such lines.
        protocol: Changes of the protocol, as such lines.
    """

    table: str
    before: int
    after: int
    added: FileTotals
    removed: FileTotals
    columns: tuple[str, ...]
    properties: tuple[str, ...]
    protocol: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The difference as a JSON object."""
        return asdict(self)


def difference(before: Snapshot, after: Snapshot) -> SnapshotDifference:
    """What changed from ``before`` to ``after``, two versions of one table."""
    earlier, later = (snapshot.files(columns=_COMPARED) for snapshot in (before, after))
    had, has = file_keys(earlier), file_keys(later)
    return SnapshotDifference(
        table=after.table_uri,
        before=before.version,
        after=after.version,
        added=_totals(later.filter(pc.invert(pc.is_in(has, had.combine_chunks())))),
        removed=_totals(earlier.filter(pc.invert(pc.is_in(had, has.combine_chunks())))),
        columns=_changed(_columns(before.schema), _columns(after.schema)),
        properties=_changed(before.metadata.configuration, after.metadata.configuration),
        protocol=_changed(_protocol(before), _protocol(after)),
    )


def _totals(files: pa.Table) -> FileTotals:
    deleted = pc.fill_null(pc.struct_field(files["deletion_vector"], "cardinality"), 0)
    rows = pc.subtract(files["num_records"], deleted)
    return FileTotals(
        files=len(files),
        bytes=pc.sum(files["size"]).as_py() or 0,
        rows=None if rows.null_count else pc.sum(rows).as_py() or 0,
    )


def _columns(schema: StructType) -> dict[str, str]:
    return {field.name: f"{field.type}{'' if field.nullable else ' NOT NULL'}" for field in schema.fields}


def _protocol(snapshot: Snapshot) -> dict[str, str]:
    protocol = snapshot.protocol
    found = {"reader version": str(protocol.min_reader_version), "writer version": str(protocol.min_writer_version)}
    features = (protocol.reader_features or frozenset()) | (protocol.writer_features or frozenset())
    return found | dict.fromkeys(sorted(features), "")


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    gone = [f"- {key} {value}".rstrip() for key, value in before.items() if key not in after]
    new = [f"+ {key} {value}".rstrip() for key, value in after.items() if key not in before]
    other = [f"~ {key} {before[key]} -> {value}" for key, value in after.items() if key in before and before[key] != value]
    return tuple(gone + new + other)
