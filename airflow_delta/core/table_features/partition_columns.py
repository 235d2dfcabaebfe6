"""Tables whose data files contain the partition columns, too; readers still take the values from the log.

Protocol: PROTOCOL.md, "Materialize Partition Columns", "Iceberg Compatibility V1".
"""

from __future__ import annotations

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.schema import StructType
from airflow_delta.core.schema.data_types import VOID
from airflow_delta.core.table_features.feature import FEATURES, writer_features

_REQUIRING = ("materializePartitionColumns", "icebergCompatV1", "icebergCompatV2", "icebergCompatV3")
_REQUESTED = "delta.writePartitionColumnsToParquet"


def materialized_columns(schema: StructType, protocol: Protocol, metadata: Metadata) -> StructType:
    """The partition columns that new data files contain after the other columns, without statistics; empty for most tables.

    Args:
        schema: The table's columns.
        protocol: The table's protocol, whose features may require it.
        metadata: The table's metadata, a property of which may require it.
    """
    features = writer_features(protocol)
    is_required = any(name in features and FEATURES[name].in_use(metadata) for name in _REQUIRING)
    if not is_required and metadata.configuration.get(_REQUESTED, "").lower() != "true":
        return StructType(())
    columns = metadata.partition_columns
    return StructType(tuple(field for field in schema.fields if field.name in columns and field.type != VOID))
