"""The ``protocol`` action: what a reader and a writer of the table must support."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_delta.core.actions.json_object import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The versions and features that readers and writers must support.

    Protocol: PROTOCOL.md, "Protocol Evolution".

    Attributes:
        reader_features: Feature names; None below reader version 3, where the version implies them.
        writer_features: Feature names; None below writer version 7, where the version implies them.
    """

    min_reader_version: int
    min_writer_version: int
    reader_features: frozenset[str] | None = None
    writer_features: frozenset[str] | None = None

    def to_json(self) -> dict[str, Any]:
        """The object under the ``protocol`` key of a log line."""
        document: dict[str, Any] = {"minReaderVersion": self.min_reader_version, "minWriterVersion": self.min_writer_version}
        if self.reader_features is not None:
            document["readerFeatures"] = sorted(self.reader_features)
        if self.writer_features is not None:
            document["writerFeatures"] = sorted(self.writer_features)
        return document

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Protocol:
        """The action in a log line's ``protocol`` object; unknown fields are ignored."""
        fields = JsonObject(document)
        reader, writer = fields.texts("readerFeatures"), fields.texts("writerFeatures")
        return cls(
            min_reader_version=fields.required("minReaderVersion", int),
            min_writer_version=fields.required("minWriterVersion", int),
            reader_features=None if reader is None else frozenset(reader),
            writer_features=None if writer is None else frozenset(writer),
        )
