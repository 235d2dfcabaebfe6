"""The members of JSON objects in the log, with the types that PROTOCOL.md requires."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

Value = TypeVar("Value", str, int, bool)


class JsonObject:
    """An object of a log line, or a row of a checkpoint. A null member counts as absent.

    Raises:
        TypeError: The value is not an object. In every method: the member has another type, exceeds 64 bits, or is required but
            absent.
    """

    def __init__(self, document: Any) -> None:
        if not isinstance(document, dict):
            raise TypeError(f"expected a JSON object, found {document!r:.80}")
        self._members = document

    def required(self, name: str, kind: type[Value]) -> Value:
        """A required member."""
        value = self.optional(name, kind)
        if value is None:
            raise TypeError(f"{name} is missing")
        return value

    def optional(self, name: str, kind: type[Value]) -> Value | None:
        """An optional member; None if absent."""
        value = self._members.get(name)
        is_long = type(value) is not int or -(1 << 63) <= value < 1 << 63
        if value is not None and not (type(value) is kind and is_long):  # bool is not int here
            raise TypeError(f"{name} is {value!r:.80}")
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of texts; None if absent."""
        values = self._members.get(name)
        if values is None:
            return None
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise TypeError(f"{name} is {values!r:.80}")
        return tuple(values)

    def text_map(self, name: str) -> Mapping[str, str]:
        """A map of text to text, given as an object or as Arrow's list of pairs; members whose value is null are left out."""
        members = dict(self._members.get(name) or {})
        if not all(isinstance(text, str) for pair in members.items() for text in pair if text is not None):
            raise TypeError(f"{name} is {members!r:.80}")
        return {key: value for key, value in members.items() if value is not None}
