"""Row ids, and the versions that last changed each row, in tables with row tracking.

A row written with its file has the file's base row id plus its position as id. A row that was copied from another file has its
id in a hidden column of the data file.
Protocol: PROTOCOL.md, "Row Tracking", "Reader Requirements for Row Tracking".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.data_files.reader import ROW_INDEX
from airflow_delta.core.schema import StructField
from airflow_delta.core.schema.column_mapping import ID_KEY, PHYSICAL_NAME_KEY
from airflow_delta.core.schema.data_types import LONG

ROW_ID: Final = "__row_id"
"""Name of the column of row ids (int64)."""

ROW_COMMIT_VERSION: Final = "__row_commit_version"
"""Name of the column of the versions that last changed each row (int64)."""

_ENABLED = "delta.enableRowTracking"
_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
_FOR_ICEBERG = "delta.enableIcebergCompatV3"
_ICEBERG_ROW_ID, _ICEBERG_ROW_VERSION = 2147483540, 2147483539
_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowIds:
    """The hidden columns of data files with the id and version of rows.

    Attributes:
        id_column: Name in data files; None if the table sets none, so that no file contains row ids.
        version_column: Likewise, for the version.
        has_field_ids: Whether new files give these columns the field ids that Iceberg reserves for them.
    """

    id_column: str | None
    version_column: str | None
    has_field_ids: bool = False

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, str]) -> RowIds | None:
        """The columns named in the table's properties; None if row tracking is not enabled."""
        if configuration.get(_ENABLED, "").lower() != "true":
            return None
        return cls(
            id_column=configuration.get(_ID_COLUMN),
            version_column=configuration.get(_VERSION_COLUMN),
            has_field_ids=configuration.get(_FOR_ICEBERG, "").lower() == "true",
        )

    @property
    def fields(self) -> tuple[StructField, ...]:
        """The columns to read from data files in addition to the table's."""
        return tuple(StructField(name, LONG) for name in (self.id_column, self.version_column) if name)

    @property
    def written_fields(self) -> tuple[StructField, ...]:
        """The columns to write to new data files in addition to the table's: ``fields``, with field ids if required.

        RFC: delta-io/delta, protocol_rfcs/iceberg-compat-v3.md.
        """
        if not self.has_field_ids:
            return self.fields
        ids = {self.id_column: _ICEBERG_ROW_ID, self.version_column: _ICEBERG_ROW_VERSION}
        return tuple(
            StructField(field.name, LONG, metadata={ID_KEY: ids[field.name], PHYSICAL_NAME_KEY: field.name})
            for field in self.fields
        )

    def columns(self, rows: pa.RecordBatch, base_row_id: int | None, default_version: int | None) -> list[pa.Int64Array]:
        """Id and version of each row; NULL where the log does not record them.

        Args:
            rows: Rows with ``fields`` and ``ROW_INDEX``.
            base_row_id: ``baseRowId`` of the file.
            default_version: ``defaultRowCommitVersion`` of the file.
        """
        ids: pa.Int64Array = pc.add(rows[ROW_INDEX], pa.scalar(base_row_id, pa.int64()))
        versions: pa.Int64Array = pa.repeat(pa.scalar(default_version, pa.int64()), rows.num_rows)
        if self.id_column:
            ids = pc.coalesce(rows[self.id_column], ids)
        if self.version_column:
            versions = pc.coalesce(rows[self.version_column], versions)
        return [ids, versions]
