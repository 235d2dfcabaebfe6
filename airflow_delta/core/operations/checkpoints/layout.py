"""How a checkpoint is split into files: one file, several parts, or a manifest with sidecars.

Protocol: PROTOCOL.md, "Checkpoint Specs", "Checkpoint Naming Scheme".
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_delta.core.log.file_names import checkpoint_part_path, checkpoint_path, sidecar_path, v2_checkpoint_path
from airflow_delta.core.operations.checkpoints.columns import manifest_columns
from airflow_delta.core.operations.checkpoints.content import CheckpointContent, rows_of
from airflow_delta.core.operations.checkpoints.spark_hash import part_numbers
from airflow_delta.core.schema import schema_json, struct_from_arrow

_GROUPS_OF_SIDECAR = 2
_MOST_IN_HINT = 30
# Only columns whose texts repeat: for the others, Parquet's writer would build a dictionary and give it up half way.
_WITH_DICTIONARY = [
    *(f"add.{name}.key_value.{part}" for name in ("partitionValues", "tags") for part in ("key", "value")),
    "add.clusteringProvider",
    "remove.partitionValues.key_value.key",
]


class CheckpointKind(StrEnum):
    """The kinds of checkpoints; the manifest of a v2 checkpoint is JSON or Parquet."""

    CLASSIC = "classic"
    MULTI_PART = "multi-part"
    V2_JSON = "v2-json"
    V2_PARQUET = "v2-parquet"

    @property
    def is_v2(self) -> bool:
        """Whether the kind requires the table feature ``v2Checkpoint``."""
        return self in (CheckpointKind.V2_JSON, CheckpointKind.V2_PARQUET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A checkpoint that was written.

    Attributes:
        path: Path of the single file, the manifest, or the first part, below the table's root.
        actions: Number of actions (rows) in all of its files.
        files: Number of live files among them.
        table_size: Size of the live files, in bytes.
        size: Size of all files of the checkpoint, in bytes.
        hint: Additional members of ``_last_checkpoint``.
    """

    path: str
    actions: int
    files: int
    table_size: int
    size: int
    hint: dict[str, Any] = field(default_factory=dict)


def write_classic(content: CheckpointContent) -> Written:
    """Write all actions to one Parquet file."""
    return _write_parquet(content, checkpoint_path(content.snapshot.version), content.all_columns, _rows(content))


def write_parts(content: CheckpointContent, parts: int) -> Written:
    """Write a multi-part checkpoint; the part of a file action depends only on its path and deletion vector."""
    version, columns = content.snapshot.version, content.all_columns
    paths = [checkpoint_part_path(version, part + 1, parts) for part in range(parts)]
    with ExitStack() as streams:  # after an error, no part is left
        files = [streams.enter_context(_writing(content, path, columns)) for path in paths]
        for piece in _rows(content):
            numbers = _part_numbers(piece, parts)
            for part, file in enumerate(files):
                file.write(piece.filter(pc.equal(numbers, part)))
    return Written(
        path=paths[0],
        actions=sum(part.actions for part in files),
        files=sum(part.files for part in files),
        table_size=sum(part.table_size for part in files),
        size=sum(part.size for part in files),
        hint={"parts": parts},
    )


def _rows(content: CheckpointContent) -> Iterator[pa.Table]:
    """All actions in the columns of a checkpoint that contains them itself, one row group at a time."""
    columns = content.all_columns
    yield rows_of(content.non_file_actions(), columns)
    for piece in content.file_actions():
        there = set(piece.column_names)
        yield pa.table(
            [piece[column.name] if column.name in there else pa.nulls(len(piece), column.type) for column in columns],
            schema=columns,
        )


def _part_numbers(piece: pa.Table, parts: int) -> pa.Array:
    files = [piece[action].combine_chunks() for action in ("add", "remove")]
    path = pc.coalesce(*(pc.struct_field(action, "path") for action in files))
    descriptors = [pc.struct_field(action, "deletionVector") for action in files]
    storage, place, offset = (
        pc.coalesce(*(pc.struct_field(descriptor, name) for descriptor in descriptors))
        for name in ("storageType", "pathOrInlineDv", "offset")
    )
    at = pc.fill_null(pc.binary_join_element_wise("@", offset.cast(pa.string()), ""), "")
    return part_numbers(path, pc.binary_join_element_wise(storage, place, at, ""), parts)


def write_v2(content: CheckpointContent, kind: CheckpointKind) -> Written:
    """Write file actions to sidecars, and all other actions to a manifest that lists the sidecars; the manifest is last."""
    sidecars: list[tuple[str, Written]] = []
    pieces = content.file_actions()
    while group := list(islice(pieces, _GROUPS_OF_SIDECAR)):
        name = f"{uuid.uuid4()}.parquet"
        sidecars.append((name, _write_parquet(content, sidecar_path(name), content.file_columns, group)))
    references = [{"path": name, "sizeInBytes": sidecar.size, "modificationTime": content.now} for name, sidecar in sidecars]
    tags = {
        "sidecarNumActions": str(sum(sidecar.actions for _, sidecar in sidecars)),
        "sidecarSizeInBytes": str(sum(sidecar.size for _, sidecar in sidecars)),
        "numOfAddFiles": str(sum(sidecar.files for _, sidecar in sidecars)),
        "sidecarFileSchema": schema_json(struct_from_arrow(content.file_columns)),
    }
    small = [{"checkpointMetadata": {"version": content.snapshot.version, "tags": tags}}, *content.non_file_actions()]
    manifest = _write_manifest(content, [*small, *({"sidecar": reference} for reference in references)], kind)
    hint = {
        "path": manifest.path.rpartition("/")[2],
        "sizeInBytes": manifest.size,
        "modificationTime": content.now,
        **({"nonFileActions": small} if len(small) <= _MOST_IN_HINT else {}),
        **({"sidecarFiles": references} if len(references) <= _MOST_IN_HINT else {}),
    }
    return Written(
        path=manifest.path,
        actions=manifest.actions + sum(sidecar.actions for _, sidecar in sidecars),
        files=sum(sidecar.files for _, sidecar in sidecars),
        table_size=sum(sidecar.table_size for _, sidecar in sidecars),
        size=manifest.size + sum(sidecar.size for _, sidecar in sidecars),
        hint={"v2Checkpoint": hint},
    )


def _write_manifest(content: CheckpointContent, actions: list[dict[str, Any]], kind: CheckpointKind) -> Written:
    version, name = content.snapshot.version, str(uuid.uuid4())
    if kind is CheckpointKind.V2_PARQUET:
        columns = manifest_columns()
        return _write_parquet(content, v2_checkpoint_path(version, name, "parquet"), columns, [rows_of(actions, columns)])
    path = v2_checkpoint_path(version, name, "json")
    text = "".join(json.dumps(action, ensure_ascii=False, separators=(",", ":")) + "\n" for action in actions).encode()
    content.snapshot.store.write(path, text)
    return Written(path=path, actions=len(actions), files=0, table_size=0, size=len(text))


def _write_parquet(content: CheckpointContent, path: str, columns: pa.Schema, pieces: Iterable[pa.Table]) -> Written:
    with _writing(content, path, columns) as file:
        for piece in pieces:
            file.write(piece)
    return Written(path=path, actions=file.actions, files=file.files, table_size=file.table_size, size=file.size)


class _File:
    """A Parquet file while it is written, with its totals."""

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer = writer
        self.actions = self.files = self.table_size = self.size = 0

    def write(self, piece: pa.Table) -> None:
        """Append a row group; nothing for an empty piece."""
        if not len(piece):
            return
        self._writer.write_table(piece, row_group_size=len(piece))
        self.actions += len(piece)
        if "add" in piece.column_names:
            self.files += len(piece) - piece["add"].null_count
            self.table_size += pc.sum(pc.struct_field(piece["add"], "size"), min_count=0).as_py()


@contextmanager
def _writing(content: CheckpointContent, path: str, columns: pa.Schema) -> Iterator[_File]:
    """A file that becomes visible, complete, when the ``with`` block ends without an error."""
    options = {"store_schema": False, "use_dictionary": _WITH_DICTIONARY, "compression": content.codec}
    with content.snapshot.store.open_output(path) as stream:
        with pq.ParquetWriter(stream, columns, **options) as writer:
            file = _File(writer)
            yield file
        file.size = stream.tell()
