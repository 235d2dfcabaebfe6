"""What a table starts with."""

from __future__ import annotations

from airflow_delta.core.actions import Metadata, Protocol

_NTZ = "timestampNtz"


def default_protocol(metadata: Metadata) -> Protocol:
    """The lowest protocol that allows the schema, so that every engine can take part.

    Protocol: PROTOCOL.md, "Requirements for Writers", "Timestamp without timezone (TimestampNtz)".
    """
    if '"timestamp_ntz"' not in metadata.schema_string:  # a column of that name gets the newer protocol too: no harm
        return Protocol(min_reader_version=1, min_writer_version=2)
    return Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=frozenset({_NTZ}),
        writer_features=frozenset({_NTZ, "appendOnly", "invariants"}),
    )
