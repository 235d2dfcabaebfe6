"""What we refuse, and only that: a feature that a table allows but does not use is no reason."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.errors import UnsupportedReaderFeatureError, UnsupportedWriterFeatureError
from airflow_delta.core.table_features.feature import (
    FEATURES,
    FEATURES_READER_VERSION,
    FEATURES_WRITER_VERSION,
    reader_features,
    writer_features,
)


def check_readable(table: str, protocol: Protocol, metadata: Metadata | None = None) -> None:
    """Return if reading gives right rows.

    Args:
        table: Name of the table, for the error.
        protocol: The table's protocol.
        metadata: The table's metadata; without it, features whose use only the metadata shows count as unused.

    Raises:
        UnsupportedReaderFeatureError: It names every feature that is missing here.
    """
    missing = tuple(sorted(_unreadable(protocol, metadata)))
    if missing:
        raise UnsupportedReaderFeatureError(table=table, features=missing)


def check_writable(table: str, protocol: Protocol, metadata: Metadata) -> None:
    """Return if writing keeps every promise of the table, which includes that it can be read.

    Raises:
        UnsupportedReaderFeatureError: Reading would give wrong rows.
        UnsupportedWriterFeatureError: It names every feature that is missing here.
    """
    check_readable(table, protocol, metadata)
    missing = tuple(sorted(_unwritable(protocol, metadata)))
    if missing:
        raise UnsupportedWriterFeatureError(table=table, features=missing)


def _unreadable(protocol: Protocol, metadata: Metadata | None) -> Iterator[str]:
    if protocol.min_reader_version > FEATURES_READER_VERSION:
        yield f"reader version {protocol.min_reader_version}"
    for name in reader_features(protocol):
        feature = FEATURES.get(name)
        if feature is None or (not feature.readable and metadata is not None and feature.in_use(metadata)):
            yield name


def _unwritable(protocol: Protocol, metadata: Metadata) -> Iterator[str]:
    if protocol.min_writer_version > FEATURES_WRITER_VERSION:
        yield f"writer version {protocol.min_writer_version}"
    for name in writer_features(protocol):
        feature = FEATURES.get(name)
        if feature is None or (not feature.writable and feature.in_use(metadata)):
            yield name
