"""The operation of a commit, as the log records it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

MAX_PARAMETER = 50_000
"""Most characters of a parameter in the log: loading any snapshot parses its ``commitInfo``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation as it appears in the table's history.

    Attributes:
        name: Delta's name of the operation, such as ``MERGE``.
        parameters: Parameters by Delta's names, as JSON values. Those that are None are left out.
        changes_data: Whether this kind of operation changes rows, even if this one did not. All others commit at
            ``SnapshotIsolation``, so that concurrent appends do not conflict.
    """

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    changes_data: bool = True

    def logged_parameters(self) -> dict[str, Any]:
        """The parameters as Delta writes them: scalars as they are, lists and objects as JSON text.

        A value longer than ``MAX_PARAMETER`` is cut and ends in three dots; in lists and objects, the texts inside are cut.
        """
        return {name: _logged(value) for name, value in self.parameters.items() if value is not None}


def _logged(value: Any) -> str | int | float | bool:
    if isinstance(value, int | float | bool):
        return value
    text = _text(value)
    if len(text) > MAX_PARAMETER and not isinstance(value, str):
        count = sum(1 for _ in _texts(value))
        text = _text(_each_cut(value, MAX_PARAMETER // max(1, 2 * count)))
    return _cut(text, MAX_PARAMETER)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _texts(value: Any) -> Iterator[str]:
    """The texts in a JSON value, without the names of members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        yield from chain.from_iterable(map(_texts, value.values() if isinstance(value, Mapping) else value))


def _each_cut(value: Any, length: int) -> Any:
    """The JSON value with every text in it cut to ``length`` characters."""
    if isinstance(value, str):
        return _cut(value, length)
    if isinstance(value, Mapping):
        return {name: _each_cut(member, length) for name, member in value.items()}
    return [_each_cut(member, length) for member in value] if isinstance(value, list | tuple) else value


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}..."
