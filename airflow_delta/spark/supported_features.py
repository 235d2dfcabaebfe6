"""Which tables the Spark data plane can read and write; all others are refused before anything runs."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.schema import parse_schema
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.schema.void_columns import check_storable
from airflow_delta.core.table_features.support import PARTLY_READABLE, ROW_FEATURES, check_readable, check_writable
from airflow_delta.core.transaction.row_tracking import ROW_TRACKING
from airflow_delta.spark.errors import ReservedColumnError

SUPPORTED = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "catalogManaged",
        "catalogOwned-preview",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "clustering",
        "collations",
        "collations-preview",
        "columnMapping",
        "deletionVectors",  # rewritten files have none
        "domainMetadata",
        "generatedColumns",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
        "icebergWriterCompatV1",
        "icebergWriterCompatV3",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "materializePartitionColumns",
        ROW_TRACKING,
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)
"""Table features that Spark can read and write here. A feature new in the core is refused here until it is added."""

SCANNABLE = SUPPORTED | PARTLY_READABLE
"""Table features that Spark can read here; for some, without the columns of unsupported types."""

ENFORCED = (ROW_FEATURES | {ROW_TRACKING}) & SUPPORTED
"""Features with requirements on rows that every write by Spark enforces, and declares to its transaction."""


RESERVED = "__airflow_delta_"
"""Prefix, in any case, of names of columns that statements add to rows. No other name is refused."""


def check_names(of: str, names: Iterable[str]) -> None:
    """Return if statements can add their own columns to rows with these columns, else raise ``ReservedColumnError``."""
    if reserved := tuple(name for name in names if name_key(name).startswith(RESERVED)):
        raise ReservedColumnError(of=of, columns=reserved)


def check_scannable(table: str, protocol: Protocol, metadata: Metadata) -> None:
    """Return if Spark can read the table's rows correctly here, else raise ``UnsupportedReaderFeatureError``."""
    check_readable(table, protocol, metadata, known=SCANNABLE)


def check_rows_writable(table: str, protocol: Protocol, metadata: Metadata) -> None:
    """Return if writes by Spark here enforce every constraint of the table.

    Raises:
        UnsupportedReaderFeatureError: Its rows cannot be read.
        UnsupportedWriterFeatureError: A constraint cannot be enforced.
        UnsupportedTypeError: Columns can only be NULL, and nothing would be left to store in a file.
        ReservedColumnError: Columns have names that statements use themselves.
    """
    check_scannable(table, protocol, metadata)
    check_writable(table, protocol, metadata, known=SUPPORTED)
    schema = parse_schema(metadata.schema_string)
    check_storable(schema.without(metadata.partition_columns))
    check_names(f"the table {table}", schema.names)
