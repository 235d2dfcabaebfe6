"""Statistics of a file that gets a deletion vector: they still describe all its rows, and must say so.

Protocol: PROTOCOL.md, "Per-file Statistics", "Writer Requirement for Deletion Vectors".
"""

from __future__ import annotations

import json
from typing import Any

from airflow_delta.core.json_text import parse_json


def with_wide_bounds(stats: str | None, num_records: int) -> str:
    """A file's statistics with its number of physical rows, and bounds marked as wide (``tightBounds`` false).

    Args:
        stats: The JSON text of the ``add``; unreadable parts are dropped.
        num_records: Rows in the file, including deleted ones; readers of deletion vectors need this number.
    """
    try:
        found = parse_json(stats or "{}", number=_Number)
    except ValueError:
        found = {}
    kept = {key: value for key, value in (found if isinstance(found, dict) else {}).items() if key not in _REPLACED}
    return _json_text({"numRecords": _Number(num_records), "tightBounds": False, **kept})


_REPLACED = frozenset({"numRecords", "tightBounds"})


class _Number(str):
    """A number in its original spelling, so that a decimal keeps all its digits."""

    __slots__ = ()


def _json_text(value: Any) -> str:
    if isinstance(value, dict):
        return (
            f"{{{','.join(f'{json.dumps(name, ensure_ascii=False)}:{_json_text(member)}' for name, member in value.items())}}}"
        )
    if isinstance(value, list):
        return f"[{','.join(map(_json_text, value))}]"
    return str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
