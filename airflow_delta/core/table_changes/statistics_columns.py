"""The list of columns with statistics (``delta.dataSkippingStatsColumns``) when a column gets another name, or goes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from airflow_delta.core.table_changes.column_path import ColumnPath, folded, parse_path
from airflow_delta.core.table_changes.properties import split_names
from airflow_delta.core.table_changes.refusal import Refusal

_PROPERTY = "delta.dataSkippingStatsColumns"
_PLAIN = re.compile(r"\w+", re.ASCII)


def renamed(configuration: Mapping[str, str], old: ColumnPath, new: ColumnPath) -> dict[str, str]:
    """The properties after the column ``old`` is called ``new``."""
    paths = _paths(configuration)
    if paths is None or not any(_is_in(path, old) for path in paths):
        return dict(configuration)
    return _with(configuration, ((*new, *path[len(old) :]) if _is_in(path, old) else path for path in paths))


def dropped(configuration: Mapping[str, str], column: ColumnPath) -> dict[str, str]:
    """The properties after ``column`` is gone."""
    paths = _paths(configuration)
    if paths is None or not any(_is_in(path, column) for path in paths):
        return dict(configuration)
    return _with(configuration, (path for path in paths if not _is_in(path, column)))


def _paths(configuration: Mapping[str, str]) -> list[ColumnPath] | None:
    try:
        return [parse_path(name) for name in split_names(configuration[_PROPERTY])]
    except (KeyError, Refusal):  # not set, or of another writer that takes any text
        return None


def _is_in(path: ColumnPath, column: ColumnPath) -> bool:
    return folded(path)[: len(column)] == folded(column)


def _with(configuration: Mapping[str, str], paths: Iterable[ColumnPath]) -> dict[str, str]:
    return {**configuration, _PROPERTY: ",".join(".".join(map(_quoted, path)) for path in paths)}


def _quoted(part: str) -> str:
    return part if _PLAIN.fullmatch(part) else "`" + part.replace("`", "``") + "`"
