"""The rows of files that hold changes, as the change feed shows them.

Protocol: PROTOCOL.md, "Change Data Files", "Reader Requirements for AddCDCFile".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from airflow_delta.core.data_files.file_rows import FileRows
from airflow_delta.core.schema import StructField, StructType, arrow_schema
from airflow_delta.core.schema.data_types import LONG, STRING, TIMESTAMP

CHANGE_TYPE: Final = "_change_type"
COMMIT_VERSION: Final = "_commit_version"
COMMIT_TIMESTAMP: Final = "_commit_timestamp"

INSERT, DELETE, UPDATE_PREIMAGE, UPDATE_POSTIMAGE = "insert", "delete", "update_preimage", "update_postimage"

CHANGE_TYPE_FIELD: Final = StructField(CHANGE_TYPE, STRING)
"""The column of change files that says what happened to a row."""

CHANGE_FIELDS: Final = (CHANGE_TYPE_FIELD, StructField(COMMIT_VERSION, LONG), StructField(COMMIT_TIMESTAMP, TIMESTAMP))
"""The columns of the feed behind those of the table."""


class ChangedRows:
    """The changed rows of one file after the other.

    Args:
        reader: Makes a reader of files that shows these columns.
        schema: The columns of the table that are wanted.
    """

    def __init__(self, reader: Callable[[StructType], FileRows], schema: StructType) -> None:
        self._names = schema.names
        self._schema = arrow_schema(StructType((*schema.fields, *CHANGE_FIELDS)))
        self._plain, self._typed = reader(schema), reader(StructType((*schema.fields, CHANGE_TYPE_FIELD)))

    def of(self, file: Mapping[str, Any], version: int, time: pa.TimestampScalar) -> Iterator[pa.RecordBatch]:
        """The rows of a file: the columns wanted and ``CHANGE_FIELDS``.

        Args:
            file: ``CHANGED_FILE``.
            version: The commit's.
            time: The commit's, timestamp[us, UTC].
        """
        kind = pa.scalar(file["change_type"], pa.string())
        rows = self._plain if kind.is_valid else self._typed
        values = dict(file["partition_values"] or ())
        for batch in rows.of(file["path"], values, shown_by=file["shown_by"], hidden_by=file["hidden_by"]):
            columns = [
                *(batch[name] for name in self._names),
                pa.repeat(kind, len(batch)) if kind.is_valid else batch[CHANGE_TYPE],
                pa.repeat(pa.scalar(version, pa.int64()), len(batch)),
                pa.repeat(time, len(batch)),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)
