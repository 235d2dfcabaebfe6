"""The ``txn`` action: the version that an application has reached in writing to the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_delta.core.actions.json_object import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTransaction:
    """The progress of one application, committed together with its data.

    Protocol: PROTOCOL.md, "Transaction Identifiers".

    Attributes:
        last_updated: Milliseconds since the epoch; None when not recorded.
    """

    app_id: str
    version: int
    last_updated: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The object under the ``txn`` key of a log line."""
        document: dict[str, Any] = {"appId": self.app_id, "version": self.version}
        return document if self.last_updated is None else {**document, "lastUpdated": self.last_updated}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> SetTransaction:
        """The action in a log line's ``txn`` object; unknown fields are ignored."""
        fields = JsonObject(document)
        return cls(
            app_id=fields.required("appId", str),
            version=fields.required("version", int),
            last_updated=fields.optional("lastUpdated", int),
        )
