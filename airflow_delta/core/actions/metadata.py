"""The ``metaData`` action: the table's schema, partition columns and properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_delta.core.actions.json_object import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The metadata of a table: identity, schema, partition columns, properties.

    Protocol: PROTOCOL.md, "Change Metadata".

    Attributes:
        id: Identity of the table (a UUID), independent of its path.
        schema_string: Schema as JSON text, as in the log.
        partition_columns: Logical names of the partition columns, in order.
        configuration: Table properties (``delta.*`` and the user's own).
        created_time: Milliseconds since the epoch; None when not recorded.
    """

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    created_time: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The object under the ``metaData`` key of a log line."""
        document: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": self.schema_string,
            "partitionColumns": list(self.partition_columns),
            "configuration": dict(self.configuration),
            "createdTime": self.created_time,
        }
        return {key: value for key, value in document.items() if value is not None}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Metadata:
        """The action in a log line's ``metaData`` object; unknown fields are ignored."""
        fields = JsonObject(document)
        return cls(
            id=fields.required("id", str),
            schema_string=fields.required("schemaString", str),
            partition_columns=fields.texts("partitionColumns") or (),
            configuration=fields.text_map("configuration"),
            name=fields.optional("name", str),
            description=fields.optional("description", str),
            created_time=fields.optional("createdTime", int),
        )
