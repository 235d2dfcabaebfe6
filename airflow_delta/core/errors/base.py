"""The root of all errors: their text and fields, and how they are serialized (pickle and JSON)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from airflow_delta.core.foreign_values import json_value, printable

_REGISTRY: dict[str, type[DeltaError]] = {}


@dataclass(kw_only=True, eq=False)
class DeltaError(Exception):
    """Base of every error of this project.

    Attributes:
        code: Stable name of the error, as used in result documents and metrics.
        retryable: Whether the same work may succeed when it is repeated on the latest snapshot.
        message: Text of the error; names in braces are replaced by fields.
        remedy: What the user can do; names in braces are replaced by fields.
        statement_place: For a statement in a sequence: which one it is, and what the statements before it have committed.
    """

    code: ClassVar[str] = "DELTA_ERROR"
    retryable: ClassVar[bool] = False
    message: ClassVar[str] = "the operation failed"
    remedy: ClassVar[str] = "see the log of the job"
    statement_place: str = ""

    def __init_subclass__(cls, *, is_variant: bool = False) -> None:
        super().__init_subclass__()
        if is_variant:  # a subclass of a registered error, from whose code it is rebuilt
            return
        if cls.code in _REGISTRY:
            raise TypeError(f"{cls.__name__} reuses the code {cls.code} of {_REGISTRY[cls.code].__name__}")
        _REGISTRY[cls.code] = cls

    def __str__(self) -> str:
        place = f"{self.statement_place}: " if self.statement_place else ""
        remedy = self.remedy.format(**self.attributes())
        return printable(f"[{self.code}] {place}{_sentence(self.claim())} Remedy: {_sentence(remedy)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (_REGISTRY.get(self.code, type(self)), self.attributes())

    def claim(self) -> str:
        """What happened and where: the text without code and remedy."""
        values = {name: "; ".join(value) if isinstance(value, tuple) else value for name, value in self.attributes().items()}
        return self.message.format(**values)

    def attributes(self) -> dict[str, Any]:
        """The error's fields by name: JSON values only."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return given if self.statement_place else {name: value for name, value in given.items() if name != "statement_place"}

    def to_json(self) -> dict[str, Any]:
        """The error as a JSON object: ``code``, ``retryable``, ``text``, ``attributes``."""
        return {"code": self.code, "retryable": self.retryable, "text": str(self), "attributes": json_value(self.attributes())}

    @staticmethod
    def codes() -> frozenset[str]:
        """The codes of all errors whose modules are loaded."""
        return frozenset(_REGISTRY)

    @staticmethod
    def from_json(document: dict[str, Any]) -> DeltaError | None:
        """The error that ``to_json`` wrote; None if this version of the package does not know its code or its fields."""
        error = _REGISTRY.get(document["code"])
        if error is None:
            return None
        known = {field.name for field in fields(error)}
        attributes = {name: value for name, value in document["attributes"].items() if name in known}
        try:
            # JSON has no tuples, and no field is a list.
            values: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value for name, value in attributes.items()
            }
            return error(**values)
        except TypeError:  # a field is missing
            return None


def _sentence(text: str) -> str:
    """The text, with a period appended unless it already ends in a punctuation mark."""
    return text if text.endswith(("?", "...")) else f"{text.rstrip(' .;')}."


def _rebuild(error: type[DeltaError], attributes: dict[str, Any]) -> DeltaError:
    return error(**attributes)
