"""What the data plane on Spark does not do yet although the core knows it: such tables are refused before anything runs."""

from __future__ import annotations

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.table_features.support import check_readable, check_writable

_SCANNED = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "clustering",
        "deletionVectors",  # refused file by file: a table that allows them need not have any
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "rowTracking",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
_WRITTEN = frozenset(
    {"appendOnly", "checkpointProtection", "inCommitTimestamp", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
)


def check_scannable(table: str, protocol: Protocol, metadata: Metadata) -> None:
    """Return if Spark reads the table's rows right here. Raises ``UnsupportedReaderFeatureError``."""
    check_readable(table, protocol, metadata, known=_SCANNED)


def check_rows_writable(table: str, protocol: Protocol, metadata: Metadata) -> None:
    """Return if rows written by Spark here keep every promise of the table.

    Raises:
        UnsupportedReaderFeatureError: Its rows cannot be read.
        UnsupportedWriterFeatureError: A promise would not be kept.
    """
    check_scannable(table, protocol, metadata)
    check_writable(table, protocol, metadata, known=_WRITTEN)
