"""The ``domainMetadata`` action: a named configuration of a table feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_delta.core.actions.json_object import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainMetadata:
    """One domain's configuration, or its end.

    Protocol: PROTOCOL.md, "Domain Metadata".

    Attributes:
        domain: Name; those that start with ``delta.`` belong to the protocol.
        configuration: Text that only the domain's owner understands.
        removed: Whether the domain ends with this commit.
    """

    domain: str
    configuration: str
    removed: bool = False

    def to_json(self) -> dict[str, Any]:
        """The object below the ``domainMetadata`` key of a log line."""
        return {"domain": self.domain, "configuration": self.configuration, "removed": self.removed}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> DomainMetadata:
        """The action that a log line's ``domainMetadata`` object describes; unknown fields are ignored."""
        fields = JsonObject(document)
        return cls(
            domain=fields.required("domain", str),
            configuration=fields.required("configuration", str),
            removed=fields.optional("removed", bool) or False,
        )
