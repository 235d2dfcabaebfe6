"""Writes a version of the table as a checkpoint, and the hint ``_last_checkpoint`` that points to it.

Protocol: PROTOCOL.md, "Checkpoints", "Last Checkpoint File".
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.errors import CorruptLogError, InvalidStatementError
from airflow_delta.core.log.managed_log_store import publish_ratified
from airflow_delta.core.operations.checkpoints.content import CheckpointContent
from airflow_delta.core.operations.checkpoints.hint import point_to
from airflow_delta.core.operations.checkpoints.layout import CheckpointKind, Written, write_classic, write_parts, write_v2
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.schema import schema_json, struct_from_arrow
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements.fields import converted_value
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.table_features.feature import writer_features
from airflow_delta.core.table_features.support import check_writable
from airflow_delta.core.transaction.table_properties import protected_before

V2_CHECKPOINT, CHECKPOINT_PROTECTION = "v2Checkpoint", "checkpointProtection"

ROWS_OF_PART = 1 << 20
_LEAST_PARTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointResult:
    """A checkpoint that was written.

    Attributes:
        path: Path of the single file, the manifest, or the first part, below the table's root.
        actions: Number of actions (rows) in all of its files.
        files: Number of live files among them.
        table_size: Size of the live files, in bytes.
        bytes: Size of all files of the checkpoint, in bytes.
    """

    version: int
    kind: CheckpointKind
    path: str
    actions: int
    files: int
    table_size: int
    bytes: int


def checkpoint(log: TableLog, version: int | None = None, *, kind: CheckpointKind | str | None = None) -> CheckpointResult:
    """Write the checkpoint of a version, the latest when None; see ``write_checkpoint``.

    Raises:
        InvalidStatementError: The table does not allow this kind, or the version is one whose checkpoints are protected.
        As ``DeltaLog.snapshot`` and ``write_checkpoint``.
    """
    latest = log.refresh()
    if version is None or version == latest.version:
        return write_checkpoint(latest, now=log.clock(), kind=kind)
    snapshot = log.snapshot(version)
    protected = protected_before(latest.metadata.configuration)
    if version < protected:
        detail = f"the table has the feature {CHECKPOINT_PROTECTION}: no checkpoint may be added before version {protected}"
        raise InvalidStatementError(statement=f"checkpoint of version {version}", detail=detail)
    return write_checkpoint(snapshot, now=log.clock(), kind=kind)


def write_checkpoint(
    snapshot: Snapshot, *, now: int, kind: CheckpointKind | str | None = None, rows_of_part: int = ROWS_OF_PART
) -> CheckpointResult:
    """Write the checkpoint of ``snapshot`` and point ``_last_checkpoint`` to it.

    Expired tombstones and application transactions are left out, as the table's properties say. Several writers may do this at
    once: they write the same content.

    Args:
        snapshot: The version to write.
        now: Milliseconds since the epoch.
        kind: None uses the kind that ``delta.checkpointPolicy`` requires. A multi-part checkpoint is only written on request,
            as the protocol advises against it.
        rows_of_part: Approximate number of actions in a part.

    Raises:
        UnsupportedWriterFeatureError: The table requires an unsupported writer feature.
        InvalidStatementError: The table does not allow this kind, or the kind is unknown.
        CorruptLogError: The log does not contain the live files.
        As ``publish_ratified``.
    """
    check_writable(snapshot.table_uri, snapshot.protocol, snapshot.metadata)
    requested: CheckpointKind | None = converted_value("checkpoint", "kind", kind, CheckpointKind | None)
    kind = requested or _kind_by_policy(snapshot.protocol, snapshot.metadata)
    _check_allowed(kind, snapshot.protocol)
    publish_ratified(snapshot.store)  # only published versions may have a checkpoint
    content = CheckpointContent.from_snapshot(snapshot, now)
    try:
        written = _write(content, kind, rows_of_part)
    except CorruptLogError:
        written = _write(replace(content, is_streamed=False), kind, rows_of_part)
    _point_to(snapshot.store, snapshot.version, written, None if kind.is_v2 else content.all_columns)
    return CheckpointResult(
        version=snapshot.version,
        kind=kind,
        path=written.path,
        actions=written.actions,
        files=written.files,
        table_size=written.table_size,
        bytes=written.size,
    )


def _write(content: CheckpointContent, kind: CheckpointKind, rows_of_part: int) -> Written:
    match kind:
        case CheckpointKind.CLASSIC:
            return write_classic(content)
        case CheckpointKind.MULTI_PART:
            return write_parts(content, max(_LEAST_PARTS, -(-content.rows // rows_of_part)))
        case _:
            return write_v2(content, kind)


def _kind_by_policy(protocol: Protocol, metadata: Metadata) -> CheckpointKind:
    wants_v2 = metadata.configuration.get("delta.checkpointPolicy", "").strip().lower() == "v2"
    return CheckpointKind.V2_JSON if wants_v2 and V2_CHECKPOINT in writer_features(protocol) else CheckpointKind.CLASSIC


def _check_allowed(kind: CheckpointKind, protocol: Protocol) -> None:
    has_feature = V2_CHECKPOINT in writer_features(protocol)
    if kind.is_v2 and not has_feature:
        detail = f"the table does not have the feature {V2_CHECKPOINT}"
    elif kind is CheckpointKind.MULTI_PART and has_feature:
        detail = f"the table has the feature {V2_CHECKPOINT}, which forbids it"
    else:
        return
    raise InvalidStatementError(statement=f"checkpoint ({kind.value})", detail=detail)


def _point_to(store: LogStore, version: int, written: Written, columns: pa.Schema | None) -> None:
    hint: dict[str, Any] = {
        "version": version,
        "size": written.actions,
        "sizeInBytes": written.size,
        "numOfAddFiles": written.files,
        **written.hint,
    }
    if columns is not None:
        hint["checkpointSchema"] = json.loads(schema_json(struct_from_arrow(columns)))
    point_to(store, hint)
