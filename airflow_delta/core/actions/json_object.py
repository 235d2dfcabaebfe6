"""The members of a log's JSON objects, each of the kind that PROTOCOL.md says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

Value = TypeVar("Value", str, int, bool)


class JsonObject:
    """An object of a commit's line, or a row of a checkpoint. A null member is an absent one.

    Raises:
        TypeError: It is not an object. Every method: the member has another type, is not a long, or is required but missing.
    """

    def __init__(self, document: Any) -> None:
        if not isinstance(document, dict):
            raise TypeError(f"expected a JSON object, found {document!r:.80}")
        self._members = document

    def required(self, name: str, kind: type[Value]) -> Value:
        """The member, which must be there."""
        value = self.optional(name, kind)
        if value is None:
            raise TypeError(f"{name} is missing")
        return value

    def optional(self, name: str, kind: type[Value]) -> Value | None:
        """The member; None where it lacks."""
        value = self._members.get(name)
        is_long = type(value) is not int or -(1 << 63) <= value < 1 << 63
        if value is not None and not (type(value) is kind and is_long):  # True is not a number here
            raise TypeError(f"{name} is {value!r:.80}")
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of texts."""
        values = self._members.get(name)
        if values is None:
            return None
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise TypeError(f"{name} is {values!r:.80}")
        return tuple(values)

    def text_map(self, name: str) -> Mapping[str, str]:
        """An object of texts, or the pairs as which Arrow gives one; a null member is an absent one."""
        members = dict(self._members.get(name) or {})
        if not all(isinstance(text, str) for pair in members.items() for text in pair if text is not None):
            raise TypeError(f"{name} is {members!r:.80}")
        return {key: value for key, value in members.items() if value is not None}
