"""Tables that point to another one, which is to be read and written in their place.

RFC: delta-io/delta, protocol_rfcs/table-redirect.md. What the property holds is up to its writer; Delta Spark's is a JSON
object with ``type``, ``state`` and ``spec``, the last one a JSON text with a ``tablePath``.
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
    """Where a table points to.

    Attributes:
        feature: The table feature that says so.
        target: The other table, as the property names it; the property's own text where that names none.
        state: How far the redirection is set up, such as ``REDIRECT-READY``; empty where it is not said.
    """

    feature: str
    target: str
    state: str

    @classmethod
    def of(cls, metadata: Metadata, features: Iterable[str]) -> Self | None:
        """The first one of these features that the table uses; None where it uses none."""
        for name in sorted(set(REDIRECTS).intersection(features)):
            if (text := metadata.configuration.get(f"delta.{name}")) is not None:
                document = _object(text)
                target = _target(_object(document.get("spec"))) or text.strip() or _UNKNOWN
                return cls(feature=name, target=target[:_MOST_SIGNS], state=str(document.get("state", ""))[:_MOST_SIGNS])
        return None


def _object(value: Any) -> dict[str, Any]:
    """A JSON object, or the one in a JSON text; an empty one where it is neither."""
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def _target(spec: dict[str, Any]) -> str | None:
    return next((place for name in _PLACES if isinstance(place := spec.get(name), str) and place), None)
