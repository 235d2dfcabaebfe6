"""Keeps column lists in properties (statistics, Bloom filters) up to date when a column is renamed or dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from airflow_delta.core.data_files.indexed_columns import COLUMNS
from airflow_delta.core.table_changes.column_path import ColumnPath, folded, parse_path
from airflow_delta.core.table_changes.properties import split_names
from airflow_delta.core.table_changes.refusal import Refusal

_PROPERTIES = ("delta.dataSkippingStatsColumns", COLUMNS)
_PLAIN = re.compile(r"\w+", re.ASCII)


def renamed(configuration: Mapping[str, str], old: ColumnPath, new: ColumnPath) -> dict[str, str]:
    """The properties after column ``old`` was renamed to ``new``."""
    return _changed(
        configuration, old, lambda paths: ((*new, *path[len(old) :]) if _is_in(path, old) else path for path in paths)
    )


def dropped(configuration: Mapping[str, str], column: ColumnPath) -> dict[str, str]:
    """The properties after ``column`` was dropped."""
    return _changed(configuration, column, lambda paths: (path for path in paths if not _is_in(path, column)))


def _changed(
    configuration: Mapping[str, str], column: ColumnPath, change: Callable[[list[ColumnPath]], Iterable[ColumnPath]]
) -> dict[str, str]:
    """The properties, with ``change`` applied to the lists that name the column."""
    changed = dict(configuration)
    for name in _PROPERTIES:
        try:
            paths = [parse_path(text) for text in split_names(configuration[name])]
        except (KeyError, Refusal):  # not set, or an arbitrary text of another writer
            continue
        if any(_is_in(path, column) for path in paths):
            changed[name] = ",".join(".".join(map(_quoted, path)) for path in change(paths))
    return changed


def _is_in(path: ColumnPath, column: ColumnPath) -> bool:
    return folded(path)[: len(column)] == folded(column)


def _quoted(part: str) -> str:
    return part if _PLAIN.fullmatch(part) else "`" + part.replace("`", "``") + "`"
