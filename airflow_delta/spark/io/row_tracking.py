"""Rows that keep their ids: what files of copied rows hold beside the table's columns.

Protocol: PROTOCOL.md, "Row Tracking", "Writer Requirements for Row Tracking". A row that is rewritten carries its id in a
column of its file; one that did not change also carries the version that last changed it.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_delta.core.actions import Metadata
from airflow_delta.core.data_files import StatisticsSelection
from airflow_delta.core.data_files.row_ids import RowIds
from airflow_delta.core.schema import StructType


def row_id_column(metadata: Metadata) -> StructType:
    """The column in which files of changed rows hold their ids; none where the table does not track rows."""
    row_ids = RowIds.from_configuration(metadata.configuration)
    if row_ids is None:
        return StructType(())
    return StructType(tuple(field for field in row_ids.written_fields if field.name == row_ids.id_column))


def statistics_of(schema: StructType, configuration: Mapping[str, str]) -> dict[str, str]:
    """The table's properties, made to say that no column behind these has statistics."""
    leaves = StatisticsSelection.from_properties(configuration).leaves(schema)
    return {**configuration, "delta.dataSkippingNumIndexedCols": str(len(leaves))}
