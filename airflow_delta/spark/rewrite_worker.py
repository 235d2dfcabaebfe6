"""The side of a rewrite that runs in Spark's Python workers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from airflow_delta.core.data_files import DataFileWriter, StatisticsSelection, open_data_file
from airflow_delta.core.schema import StructType, arrow_schema
from airflow_delta.core.storage.data_filesystem import data_filesystem
from airflow_delta.spark.data_paths import file_uri
from airflow_delta.spark.row_changes import OUTPUT, RowChanges
from airflow_delta.spark.worker_values import from_ipc, with_typed_errors

RESULT = pa.schema(
    [
        ("output", pa.int32()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("stats", pa.string()),
        ("rows_read", pa.int64()),
        ("rows_written", pa.int64()),
    ]
)
RESULT_DDL = "output int, path string, size bigint, stats string, rows_read bigint, rows_written bigint"


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteWorker:
    """Turns a partition of ordered changes into files and one ``RESULT`` row for each output.

    Attributes:
        columns: Names of the columns of changes, in the order in which they arrive.
        schema: The table's columns that data files hold.
        selection: Which columns get statistics.
        inputs: Columns ``path`` (as in the log) and ``OUTPUT``, ordered, as bytes.
    """

    table_uri: str
    directory: str
    columns: tuple[str, ...]
    schema: StructType
    selection: StatisticsSelection
    inputs: bytes

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition."""
        named = (batch.rename_columns(list(self.columns)) for batch in batches)
        return with_typed_errors(self._results(RowChanges(named, arrow_schema(self.schema))))

    def _results(self, changes: RowChanges) -> Iterator[pa.RecordBatch]:
        inputs = from_ipc(self.inputs)
        outputs, paths = inputs[OUTPUT].to_numpy(), inputs["path"]
        while (output := changes.next_output()) is not None:
            first, end = np.searchsorted(outputs, [output, output + 1])
            result = self._write(output, paths.slice(first, end - first).to_pylist(), changes)
            yield pa.RecordBatch.from_pylist([result], schema=RESULT)

    def _write(self, output: int, paths: list[str], changes: RowChanges) -> Mapping[str, object]:
        """Stream the inputs with their changes into a new file; no rows make no file."""
        path = f"{self.directory}/part-{output:05d}-{uuid.uuid4()}-c000.snappy.parquet"
        filesystem, location = data_filesystem(file_uri(self.table_uri, path))
        if isinstance(filesystem, pafs.LocalFileSystem):  # object stores have no directories, HDFS makes them
            filesystem.create_dir(PurePosixPath(location).parent.as_posix())
        rows_read = 0
        with DataFileWriter(filesystem, location, self.schema, selection=self.selection, table=self.table_uri) as writer:
            for batch in self._read(paths):
                writer.write(changes.apply(output, rows_read, batch))
                rows_read += batch.num_rows
            changes.finish(output)
        written = writer.close()
        result = {"output": output, "rows_read": rows_read, "rows_written": 0}
        if written is None:
            return result
        return {**result, "path": path, "size": written.size, "stats": written.stats, "rows_written": written.num_records}

    def _read(self, paths: list[str]) -> Iterator[pa.RecordBatch]:
        for path in paths:
            filesystem, location = data_filesystem(file_uri(self.table_uri, path))
            yield from open_data_file(filesystem, location, self.schema, {}, table=self.table_uri)
