"""What the data plane on Spark does not do yet although the core knows it: such tables are refused before anything runs."""

from __future__ import annotations

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.table_features.support import ROW_FEATURES, check_readable, check_writable
from airflow_delta.core.transaction.row_tracking import ROW_TRACKING

SUPPORTED = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "clustering",
        "columnMapping",
        "deletionVectors",  # files are written anew without them
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        ROW_TRACKING,
        "timestampNtz",
        "typeWidening",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Features of tables that are read and written on Spark. What the core learns is refused here until it is added."""

ENFORCED = (ROW_FEATURES | {ROW_TRACKING}) & SUPPORTED
"""Of what a table may require of its rows: what every write by Spark enforces, and so declares to its transaction."""


def check_scannable(table: str, protocol: Protocol, metadata: Metadata) -> None:
    """Return if Spark reads the table's rows right here. Raises ``UnsupportedReaderFeatureError``."""
    check_readable(table, protocol, metadata, known=SUPPORTED)


def check_rows_writable(table: str, protocol: Protocol, metadata: Metadata) -> None:
    """Return if writes by Spark here enforce every constraint of the table.

    Raises:
        UnsupportedReaderFeatureError: Its rows cannot be read.
        UnsupportedWriterFeatureError: A constraint could not be enforced.
    """
    check_scannable(table, protocol, metadata)
    check_writable(table, protocol, metadata, known=SUPPORTED)
