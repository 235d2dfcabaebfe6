"""Turns files of actions into a checkpoint: writes the manifest that lists sidecars, and the hint for readers.

Protocol: PROTOCOL.md, "V2 Checkpoint Table Feature", "Last Checkpoint File".
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_delta.core.log.file_names import v2_checkpoint_path
from airflow_delta.core.operations.checkpoints import CheckpointKind, CheckpointResult
from airflow_delta.core.operations.checkpoints.columns import manifest_columns
from airflow_delta.core.operations.checkpoints.content import CheckpointContent, rows_of
from airflow_delta.core.operations.checkpoints.hint import point_to
from airflow_delta.core.schema import schema_json, struct_from_arrow

_MOST_IN_HINT = 30

File = Mapping[str, Any]
"""A file that a worker wrote: the columns of ``checkpoint_worker.WRITTEN``."""


def head_parts(content: CheckpointContent, parts: Sequence[File]) -> CheckpointResult:
    """Point readers to the parts, which form a checkpoint once all of them exist."""
    columns = json.loads(schema_json(struct_from_arrow(content.all_columns)))
    result = _result(content, CheckpointKind.MULTI_PART, parts[0]["path"], parts)
    _point_to(content, result, {"parts": len(parts), "checkpointSchema": columns})
    return result


def head_sidecars(content: CheckpointContent, kind: CheckpointKind, sidecars: Sequence[File]) -> CheckpointResult:
    """Write the manifest, which makes the sidecars a checkpoint, and point readers to it."""
    references = [
        {"path": file["path"].rpartition("/")[2], "sizeInBytes": file["size"], "modificationTime": content.now}
        for file in sidecars
    ]
    tags = {
        "sidecarNumActions": str(_sum(sidecars, "actions")),
        "sidecarSizeInBytes": str(_sum(sidecars, "size")),
        "numOfAddFiles": str(_sum(sidecars, "files")),
        "sidecarFileSchema": schema_json(struct_from_arrow(content.file_columns)),
    }
    version, store = content.snapshot.version, content.snapshot.store
    small = [{"checkpointMetadata": {"version": version, "tags": tags}}, *content.non_file_actions()]
    actions = [*small, *({"sidecar": reference} for reference in references)]
    name, is_json = str(uuid.uuid4()), kind is CheckpointKind.V2_JSON
    path = v2_checkpoint_path(version, name, "json" if is_json else "parquet")
    manifest = _as_json(actions) if is_json else _as_parquet(actions, content.codec)
    store.write_if_absent(path, manifest)
    result = _result(content, kind, path, [*sidecars, _manifest_file(path, len(actions), len(manifest))])
    hint = {
        "path": path.rpartition("/")[2],
        "sizeInBytes": len(manifest),
        "modificationTime": content.now,
        **({"nonFileActions": small} if len(small) <= _MOST_IN_HINT else {}),
        **({"sidecarFiles": references} if len(references) <= _MOST_IN_HINT else {}),
    }
    _point_to(content, result, {"v2Checkpoint": hint})
    return result


def _as_json(actions: Sequence[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(action, ensure_ascii=False, separators=(",", ":")) + "\n" for action in actions).encode()


def _as_parquet(actions: Sequence[dict[str, Any]], codec: str) -> bytes:
    content: pa.Table = rows_of(actions, manifest_columns())
    sink = io.BytesIO()
    pq.write_table(content, sink, compression=codec, store_schema=False)
    return sink.getvalue()


def _manifest_file(path: str, actions: int, size: int) -> File:
    return {"path": path, "actions": actions, "files": 0, "table_size": 0, "size": size}


def _result(content: CheckpointContent, kind: CheckpointKind, path: str, files: Sequence[File]) -> CheckpointResult:
    return CheckpointResult(
        version=content.snapshot.version,
        kind=kind,
        path=path,
        actions=_sum(files, "actions"),
        files=_sum(files, "files"),
        table_size=_sum(files, "table_size"),
        bytes=_sum(files, "size"),
    )


def _sum(files: Sequence[File], name: str) -> int:
    return sum(file[name] for file in files)


def _point_to(content: CheckpointContent, result: CheckpointResult, members: Mapping[str, Any]) -> None:
    hint = {
        "version": result.version,
        "size": result.actions,
        "sizeInBytes": result.bytes,
        "numOfAddFiles": result.files,
        **members,
    }
    point_to(content.snapshot.store, hint)
