"""The ``domainMetadata`` action: a named configuration of a table feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_delta.core.actions.json_object import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainMetadata:
    """The configuration of one metadata domain, or its removal.

    Protocol: PROTOCOL.md, "Domain Metadata".

    Attributes:
        domain: Name of the domain; names that start with ``delta.`` are reserved by the protocol.
        configuration: Text that only the owner of the domain interprets.
        removed: Whether the commit removes the domain.
    """

    domain: str
    configuration: str
    removed: bool = False

    def to_json(self) -> dict[str, Any]:
        """The object under the ``domainMetadata`` key of a log line."""
        return {"domain": self.domain, "configuration": self.configuration, "removed": self.removed}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> DomainMetadata:
        """The action in a log line's ``domainMetadata`` object; unknown fields are ignored."""
        fields = JsonObject(document)
        return cls(
            domain=fields.required("domain", str),
            configuration=fields.required("configuration", str),
            removed=fields.optional("removed", bool) or False,
        )
