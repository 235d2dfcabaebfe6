"""The path of a column at any depth: ``a.b``, ``list.element.x``, ``pairs.value``.

A part that contains a dot or a backtick is put in backticks, with backticks inside doubled.
"""

from __future__ import annotations

import re

from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.table_changes.refusal import Refusal

ColumnPath = tuple[str, ...]

_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


def parse_path(text: str) -> ColumnPath:
    """The parts of a path.

    Raises:
        Refusal: A part is empty, or a backtick is not closed.
    """
    parts: list[str] = []
    position = 0
    while match := _PART.match(text, position):
        parts.append(match[2] if match[1] is None else match[1].replace("``", "`"))
        position = match.end() + 1
        if match.end() == len(text):
            return tuple(parts)
        if text[match.end()] != ".":
            break
    raise Refusal(f"{text!r} is not a column path")


def path_text(path: ColumnPath) -> str:
    """The path as Delta's history shows it; ``parse_path`` reads it back."""
    return ".".join(map(_part_text, path))


def _part_text(part: str) -> str:
    return f"`{part.replace('`', '``')}`" if "." in part or "`" in part else part


def folded(path: ColumnPath) -> ColumnPath:
    """The path for comparisons, as names are case-insensitive."""
    return tuple(name_key(part) for part in path)


def overlap(one: ColumnPath, other: ColumnPath) -> bool:
    """Whether one of the columns is the other, or is nested in it."""
    return all(left == right for left, right in zip(folded(one), folded(other), strict=False))
