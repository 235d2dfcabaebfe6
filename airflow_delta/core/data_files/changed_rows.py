"""The rows of files that contain changes, in the form of the change data feed.

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
"""The column of change data files with the kind of change of a row."""

CHANGE_FIELDS: Final = (CHANGE_TYPE_FIELD, StructField(COMMIT_VERSION, LONG), StructField(COMMIT_TIMESTAMP, TIMESTAMP))
"""The columns of the feed that follow those of the table."""


class ChangedRows:
    """The changed rows of files, one file after the other.

    Args:
        reader: Creates a reader of files that returns these columns.
        schema: The columns of the table to return.
    """

    def __init__(self, reader: Callable[[StructType], FileRows], schema: StructType) -> None:
        self._names = schema.names
        self._schema = arrow_schema(StructType((*schema.fields, *CHANGE_FIELDS)))
        self._plain, self._typed = reader(schema), reader(StructType((*schema.fields, CHANGE_TYPE_FIELD)))

    def of(self, file: Mapping[str, Any], version: int, time: pa.TimestampScalar) -> Iterator[pa.RecordBatch]:
        """The changed rows of a file: the columns to return, and ``CHANGE_FIELDS``.

        Args:
            file: A row of ``CHANGED_FILE``.
            version: Version of the commit.
            time: Time of the commit, timestamp[us, UTC].
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
