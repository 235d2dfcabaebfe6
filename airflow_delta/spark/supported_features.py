"""Which tables the data plane on Spark reads and writes: all others are refused before anything runs."""

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
        "deletionVectors",  # files are written anew without them
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
"""Features of tables that are read and written on Spark. What the core learns is refused here until it is added."""

SCANNABLE = SUPPORTED | PARTLY_READABLE
"""Features of tables that are read on Spark; of some of them without the columns of types that are not known here."""

ENFORCED = (ROW_FEATURES | {ROW_TRACKING}) & SUPPORTED
"""Of what a table may require of its rows: what every write by Spark enforces, and so declares to its transaction."""


RESERVED = "__airflow_delta_"
"""How the names of columns begin that statements add to rows, in any case. No other name is refused."""


def check_names(of: str, names: Iterable[str]) -> None:
    """Return if statements can add their own columns to rows with these columns. Raises ``ReservedColumnError``."""
    if reserved := tuple(name for name in names if name_key(name).startswith(RESERVED)):
        raise ReservedColumnError(of=of, columns=reserved)


def check_scannable(table: str, protocol: Protocol, metadata: Metadata) -> None:
    """Return if Spark reads the table's rows right here. Raises ``UnsupportedReaderFeatureError``."""
    check_readable(table, protocol, metadata, known=SCANNABLE)


def check_rows_writable(table: str, protocol: Protocol, metadata: Metadata) -> None:
    """Return if writes by Spark here enforce every constraint of the table.

    Raises:
        UnsupportedReaderFeatureError: Its rows cannot be read.
        UnsupportedWriterFeatureError: A constraint could not be enforced.
        UnsupportedTypeError: No file can hold rows of such columns, of which only NULL is known.
        ReservedColumnError: Columns have names that statements use themselves.
    """
    check_scannable(table, protocol, metadata)
    check_writable(table, protocol, metadata, known=SUPPORTED)
    schema = parse_schema(metadata.schema_string)
    check_storable(schema.without(metadata.partition_columns))
    check_names(f"the table {table}", schema.names)
