"""What can still be read of a ``commitInfo`` that is too long for Python's parser: Arrow parses only some members.

Other engines log predicates of any length there. As ``commitInfo`` does not affect the table's state, its length is no reason
to refuse the table.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.json

from airflow_delta.core.errors.conflict import RECORD_KEY

_START = b'{"commitInfo":'
_ACTIONS = ("protocol", "metaData", "add", "remove", "cdc", "txn", "domainMetadata", "checkpointMetadata", "sidecar")
_RECORD = pa.struct(
    {
        **dict.fromkeys(("token", "dag_id", "task_id", "run_id", "logical_date"), pa.string()),
        "map_index": pa.int64(),
    }
)
_KEPT = pa.struct(
    {
        **dict.fromkeys(("inCommitTimestamp", "timestamp", "readVersion"), pa.int64()),
        **dict.fromkeys(("operation", "isolationLevel", "engineInfo", "txnId"), pa.string()),
        "isBlindAppend": pa.bool_(),
        RECORD_KEY: _RECORD,
    }
)
"""What this package uses for decisions, what a history shows first, and what finds the commit of a task run."""


def long_commit_info(line: bytes) -> dict[str, Any] | None:
    """The ``commitInfo`` of a line of the log, without members that may be long; empty if it has an unusual form.

    None if the line is not JSON, or also holds another action, which must not be overlooked.
    """
    if not line.startswith(_START):
        return None
    try:
        found = _parsed(line, {key: pa.struct([]) for key in ("commitInfo", *_ACTIONS)})
    except pa.ArrowException:
        return None
    if found is None or any(found[key] is not None for key in _ACTIONS):
        return None
    try:
        info = (_parsed(line, {"commitInfo": _KEPT}) or {}).get("commitInfo")
    except pa.ArrowException:
        return {}
    return _without_nulls(info or {})


def _parsed(line: bytes, columns: dict[str, pa.DataType]) -> dict[str, Any] | None:
    """The line as one row of these columns; None if Arrow finds more than one row."""
    rows = pyarrow.json.read_json(
        pa.BufferReader(line),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(line) + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=pa.schema(columns), unexpected_field_behavior="ignore"),
    ).to_pylist()
    return rows[0] if len(rows) == 1 else None


def _without_nulls(document: dict[str, Any]) -> dict[str, Any]:
    members = {key: _without_nulls(value) if isinstance(value, dict) else value for key, value in document.items()}
    return {key: value for key, value in members.items() if value is not None}
