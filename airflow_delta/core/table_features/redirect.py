"""Tables that redirect readers and writers to another table.

RFC: delta-io/delta, protocol_rfcs/table-redirect.md. The content of the property is up to its writer; Delta Spark writes a JSON
    object with ``type``, ``state`` and ``spec``, a JSON text with a ``tablePath``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from airflow_delta.core.actions import Metadata
from airflow_delta.core.json_text import parse_json
from airflow_delta.core.table_features.feature import REDIRECTS

_PLACES = ("tablePath", "table", "tableName")
_MOST_SIGNS = 1000
_UNKNOWN = "a place that the table does not name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """A redirection.

    Attributes:
        feature: The table feature that enables it.
        target: The other table, as named in the property; the property's whole text if it names no table.
        state: State of the redirection, such as ``REDIRECT-READY``; empty if not recorded.
    """

    feature: str
    target: str
    state: str

    @classmethod
    def of(cls, metadata: Metadata, features: Iterable[str]) -> Self | None:
        """The redirection of the first of these features that the table uses; None if it uses none."""
        for name in sorted(set(REDIRECTS).intersection(features)):
            if (text := metadata.configuration.get(f"delta.{name}")) is not None:
                document = _object(text)
                target = _target(_object(document.get("spec"))) or text.strip() or _UNKNOWN
                return cls(feature=name, target=target[:_MOST_SIGNS], state=str(document.get("state", ""))[:_MOST_SIGNS])
        return None


def _object(value: Any) -> dict[str, Any]:
    """The value, if it is a JSON object or the text of one; otherwise an empty object."""
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def _target(spec: dict[str, Any]) -> str | None:
    return next((place for name in _PLACES if isinstance(place := spec.get(name), str) and place), None)
