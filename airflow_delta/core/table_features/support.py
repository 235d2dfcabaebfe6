"""Refuses tables with unsupported features, but only if they use them: a feature that is merely listed does no harm."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.errors import (
    InvalidProtocolError,
    TableRedirectedError,
    UnsupportedReaderFeatureError,
    UnsupportedWriterFeatureError,
)
from airflow_delta.core.schema import parse_schema
from airflow_delta.core.schema.type_widening import TYPE_CHANGES, unknown_changes
from airflow_delta.core.table_features.feature import (
    FEATURES,
    FEATURES_READER_VERSION,
    FEATURES_WRITER_VERSION,
    reader_features,
    writer_features,
)
from airflow_delta.core.table_features.protocol import contradictions_in
from airflow_delta.core.table_features.redirect import Redirect

ROW_FEATURES = frozenset(
    {
        "allowColumnDefaults",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "generatedColumns",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
        "identityColumns",
        "invariants",
        "materializePartitionColumns",
        "typeWidening",
        "typeWidening-preview",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)
"""Features with requirements on rows. The core writes no rows: their writer declares which of these it has enforced."""

FILE_FEATURES = ROW_FEATURES - {
    "allowColumnDefaults",
    "changeDataFeed",
    "checkConstraints",
    "generatedColumns",
    "identityColumns",
    "invariants",
}
"""Those with requirements on the files themselves, so that without support for them rows must not even be moved."""

WRITABLE = ROW_FEATURES | {
    "appendOnly",
    "catalogManaged",
    "catalogOwned-preview",
    "checkpointProtection",
    "clustering",
    "collations",
    "collations-preview",
    "deletionVectors",
    "domainMetadata",
    "icebergWriterCompatV1",
    "icebergWriterCompatV3",
    "inCommitTimestamp",
    "rowTracking",
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
"""Features that transactions and log operations enforce; those in ``ROW_FEATURES``, as far as the writer of rows does."""

PARTLY_READABLE = frozenset({"geospatial", "geospatial-preview", "timestampNanos"})
"""Features with types that are unknown here: such tables are read without the columns of these types."""

_TYPE_WIDENING = frozenset({"typeWidening", "typeWidening-preview"})

READABLE = PARTLY_READABLE | WRITABLE - {"materializePartitionColumns"}  # which only concerns writers
"""Features of tables that the core reads correctly."""


def check_readable(
    table: str, protocol: Protocol, metadata: Metadata | None = None, *, known: Collection[str] = READABLE
) -> None:
    """Return if the table can be read correctly.

    Args:
        table: URI of the table, for the error.
        protocol: The table's protocol.
        metadata: The table's metadata; without it, features whose use only the metadata shows count as unused.
        known: Features that the caller can read.

    Raises:
        TableRedirectedError: The table redirects to another one.
        UnsupportedReaderFeatureError: The table uses unsupported reader features; the error names them all.
    """
    _check_not_redirected(table, metadata, reader_features(protocol))
    missing = tuple(sorted(_unreadable(protocol, metadata, known)))
    if missing:
        raise UnsupportedReaderFeatureError(table=table, features=missing)


def check_writable(table: str, protocol: Protocol, metadata: Metadata, *, known: Collection[str] = WRITABLE) -> None:
    """Return if the table can be written with all its requirements met, which includes reading it.

    Args:
        table: URI of the table, for the error.
        protocol: The table's protocol.
        metadata: The table's metadata.
        known: Features that the caller can write.

    Raises:
        InvalidProtocolError: The protocol contradicts itself, so that writers would disagree about its requirements.
        TableRedirectedError: The table redirects to another one.
        UnsupportedReaderFeatureError: The table uses unsupported reader features.
        UnsupportedWriterFeatureError: The table uses unsupported writer features; the error names them all.
    """
    check_readable(table, protocol, metadata)
    _check_not_redirected(table, metadata, writer_features(protocol))
    missing = tuple(sorted(_unwritable(protocol, metadata, known)))
    if missing:
        raise UnsupportedWriterFeatureError(table=table, features=missing)
    if contradictions := tuple(contradictions_in(protocol)):
        raise InvalidProtocolError(table=table, contradictions=contradictions)


def _check_not_redirected(table: str, metadata: Metadata | None, features: Collection[str]) -> None:
    redirect = Redirect.of(metadata, features) if metadata else None
    if redirect:
        raise TableRedirectedError(table=table, target=redirect.target, state=redirect.state, feature=redirect.feature)


def _unreadable(protocol: Protocol, metadata: Metadata | None, known: Collection[str]) -> Iterator[str]:
    if protocol.min_reader_version > FEATURES_READER_VERSION:
        yield f"reader version {protocol.min_reader_version}"
    for name in reader_features(protocol):
        feature = FEATURES.get(name)
        if feature is None or (name not in known and metadata is not None and feature.in_use(metadata)):
            yield name
    if metadata is not None and f'"{TYPE_CHANGES}"' in metadata.schema_string and _TYPE_WIDENING & reader_features(protocol):
        yield from unknown_changes(parse_schema(metadata.schema_string))


def _unwritable(protocol: Protocol, metadata: Metadata, known: Collection[str]) -> Iterator[str]:
    if protocol.min_writer_version > FEATURES_WRITER_VERSION:
        yield f"writer version {protocol.min_writer_version}"
    for name in writer_features(protocol):
        feature = FEATURES.get(name)
        if feature is None or (name not in known and feature.in_use(metadata)):
            yield name
