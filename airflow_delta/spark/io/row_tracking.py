"""Row tracking: the hidden columns in files of copied rows.

Protocol: PROTOCOL.md, "Row Tracking", "Writer Requirements for Row Tracking". A row that is rewritten keeps its id in a hidden
    column of the new file; a row that did not change also keeps the version that last changed it.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_delta.core.actions import Metadata
from airflow_delta.core.data_files import StatisticsSelection
from airflow_delta.core.data_files.row_ids import RowIds
from airflow_delta.core.schema import StructType


def row_id_column(metadata: Metadata) -> StructType:
    """The column with row ids in files of changed rows; none if the table does not track rows."""
    row_ids = RowIds.from_configuration(metadata.configuration)
    if row_ids is None:
        return StructType(())
    return StructType(tuple(field for field in row_ids.written_fields if field.name == row_ids.id_column))


def statistics_of(schema: StructType, configuration: Mapping[str, str]) -> dict[str, str]:
    """The table's properties, changed so that no column after the given ones gets statistics."""
    leaves = StatisticsSelection.from_properties(configuration).leaves(schema)
    return {**configuration, "delta.dataSkippingNumIndexedCols": str(len(leaves))}
