"""Statistics of a file that gets a deletion vector: they still speak of all its rows, and must say so.

Protocol: PROTOCOL.md, "Per-file Statistics", "Writer Requirement for Deletion Vectors".
"""

from __future__ import annotations

import json
from typing import Any

from airflow_delta.core.json_text import parse_json


def with_wide_bounds(stats: str | None, num_records: int) -> str:
    """A file's statistics with the number of its physical rows, and with bounds that need not be values of a live row.

    Args:
        stats: The JSON text of the ``add``; what cannot be read is dropped.
        num_records: Rows in the file, deleted ones included: readers of a file with a deletion vector must know them.
    """
    try:
        found = parse_json(stats or "{}", number=_Number)
    except ValueError:
        found = {}
    kept = {key: value for key, value in (found if isinstance(found, dict) else {}).items() if key not in _REPLACED}
    return _json_text({"numRecords": _Number(num_records), "tightBounds": False, **kept})


_REPLACED = frozenset({"numRecords", "tightBounds"})


class _Number(str):
    """A number as it was written: a decimal keeps all its digits so."""

    __slots__ = ()


def _json_text(value: Any) -> str:
    if isinstance(value, dict):
        return (
            f"{{{','.join(f'{json.dumps(name, ensure_ascii=False)}:{_json_text(member)}' for name, member in value.items())}}}"
        )
    if isinstance(value, list):
        return f"[{','.join(map(_json_text, value))}]"
    return str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
