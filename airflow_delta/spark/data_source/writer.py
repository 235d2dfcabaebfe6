"""Writes ``format("delta")``: tasks write files with Arrow, and one commit adds those of the tasks that finished.

File names are unique to each attempt of a task, so that files of a lost attempt are never committed. The files of one write are
in a directory of their own, which is deleted if certainly nothing was committed, and kept if the outcome is unknown.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from airflow_delta.core.data_files import DataFileWriter, StatisticsSelection
from airflow_delta.core.data_files.compression import codec_for_arrow, ending
from airflow_delta.core.data_files.conform import conform
from airflow_delta.core.data_files.writer import ROW_GROUP_BYTES
from airflow_delta.core.errors import CommitStateUnknownError, ConstraintViolatedError, SchemaMismatchError
from airflow_delta.core.schema import arrow_schema, physical_name, serialized_values
from airflow_delta.core.schema.data_types import DOUBLE, FLOAT
from airflow_delta.core.storage.table_filesystems import TableFilesystems
from airflow_delta.core.transaction.table_properties import target_file_size
from airflow_delta.spark.data_source.write_plan import WritePlan, commit_files, text_limits
from airflow_delta.spark.io.all_nullable import all_nullable
from airflow_delta.spark.io.arrow_sink_worker import FILE_BYTES
from airflow_delta.spark.io.data_paths import hadoop_uri
from airflow_delta.spark.io.table_files import schema_of

_OPEN_FILES = 32
"""Most partitions for which a task has a file open; more partitions cause more files, not more memory."""

_COMMITTING = "_committing"


@dataclass
class WrittenFiles(WriterCommitMessage):  # type: ignore[misc] # PySpark is not typed here
    """The files of one task; see ``commit_files``."""

    files: tuple[Mapping[str, Any], ...]


class DeltaWriter(DataSourceArrowWriter):  # type: ignore[misc] # as above
    """One write; Spark sends it to the tasks, and to where it is committed or aborted."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan
        self._folder = f"write-{uuid.uuid4().hex}"
        self._filesystems = TableFilesystems(hadoop_uri(plan.path))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Write the rows of one task, in a worker."""
        files = _TaskFiles(self._plan, self._filesystems, self._folder)
        try:
            for batch in iterator:
                files.write(batch)
            return WrittenFiles(tuple(files.close()))
        except BaseException:
            files.abort()
            raise

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks. Raises as ``commit_files``; then no file is left, unless the outcome is unknown."""
        filesystem, root = self._filesystems()
        mark = f"{root}/{self._folder}/{_COMMITTING}"
        _create_directory(filesystem, mark)
        filesystem.open_output_stream(mark).close()
        try:
            commit_files(
                self._plan, [file for message in messages if isinstance(message, WrittenFiles) for file in message.files]
            )
        except CommitStateUnknownError:
            raise
        except Exception:
            filesystem.delete_dir(f"{root}/{self._folder}")
            raise
        with suppress(OSError):  # the commit stands even if the mark cannot be written
            filesystem.delete_file(mark)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's signature
        """Delete the files, unless committing them was tried: the commit cleans up itself, or its outcome is unknown.

        Spark does not wait for tasks that are still running; files that they leave are not part of any commit, and a vacuum
        deletes them.
        """
        filesystem, root = self._filesystems()
        folder = f"{root}/{self._folder}"
        if filesystem.get_file_info(f"{folder}/{_COMMITTING}").type == pafs.FileType.NotFound:
            with suppress(FileNotFoundError):
                filesystem.delete_dir(folder)


class _TaskFiles:
    """The files of one task, one of them open for each partition, up to ``_OPEN_FILES``."""

    def __init__(self, plan: WritePlan, filesystems: TableFilesystems, folder: str) -> None:
        metadata = plan.definition.metadata
        self._table = plan.path
        self._schema = schema_of(metadata)
        self._rows = arrow_schema(all_nullable(self._schema))  # the writer of each file enforces NOT NULL
        self._partitions = [field for field in self._schema.fields if field.name in metadata.partition_columns]
        self._stored = self._schema.without(metadata.partition_columns)
        self._limits = text_limits(self._schema)
        self._selection = StatisticsSelection.from_properties(metadata.configuration)
        self._codec = codec_for_arrow(metadata.configuration)
        self._file_bytes = target_file_size(metadata.configuration) or FILE_BYTES
        self._filesystem, self._root = filesystems()
        self._folder = folder
        self._open: dict[tuple[str | None, ...], DataFileWriter] = {}
        self._written: list[dict[str, Any]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows; raises ``SchemaMismatchError`` for a value that does not fit, ``ConstraintViolatedError`` for NULL.

        The latter also for a string that is longer than its column allows.
        """
        try:
            rows = conform(batch, self._rows)
        except pa.ArrowInvalid as error:
            raise SchemaMismatchError(table=self._table, differences=(str(error),)) from error
        for name, longest in self._limits.items():
            if broken := pc.sum(pc.greater(pc.utf8_length(rows.column(name)), longest)).as_py():
                raise ConstraintViolatedError(table=self._table, constraint=f"the length of {name} ({longest})", rows=broken)
        for values, part in self._by_partition(rows):
            writer = self._open.get(values)
            if writer is not None and writer.flushed_bytes >= self._file_bytes:
                self._end(values)
                writer = None
            if writer is None:
                if len(self._open) >= _OPEN_FILES:
                    self._end(next(iter(self._open)))
                writer = self._begin(values)
            writer.write(part)

    def close(self) -> list[dict[str, Any]]:
        """Complete the files, and return them."""
        for values in list(self._open):
            self._end(values)
        return self._written

    def abort(self) -> None:
        """Delete all files, as far as the storage answers; those left are not part of any commit."""
        for writer in self._open.values():
            writer.abort()
        for file in self._written:
            with suppress(OSError):
                self._filesystem.delete_file(f"{self._root}/{file['path']}")

    def _by_partition(self, rows: pa.RecordBatch) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
        """The rows of each partition, with its values in the form of the log."""
        if not self._partitions:
            yield (), rows
            return
        texts = []
        for field in self._partitions:
            column = rows.column(field.name)
            if field.type in (FLOAT, DOUBLE):  # -0.0 equals 0.0, and must not become a second partition
                column = pc.add(column, pa.scalar(0.0, column.type))
            values_of_column = serialized_values(column, field.type, column=field.name)
            if not field.nullable and values_of_column.null_count:  # an empty string is NULL, too
                constraint = f"NOT NULL of {field.name}"
                raise ConstraintViolatedError(table=self._table, constraint=constraint, rows=values_of_column.null_count)
            texts.append(values_of_column.to_pylist())
        places: dict[tuple[str | None, ...], list[int]] = {}
        for place, values in enumerate(zip(*texts, strict=True)):
            places.setdefault(values, []).append(place)
        for values, chosen in places.items():
            yield values, rows if len(places) == 1 else rows.take(pa.array(chosen, pa.int64()))

    def _begin(self, values: tuple[str | None, ...]) -> DataFileWriter:
        path = f"{self._root}/{self._folder}/part-{uuid.uuid4()}-c000{ending(self._codec)}"
        _create_directory(self._filesystem, path)
        writer = DataFileWriter(
            self._filesystem,
            path,
            self._stored,
            compression=self._codec,
            selection=self._selection,
            table=self._table,
            row_group_bytes=min(ROW_GROUP_BYTES, self._file_bytes),
        )
        self._open[values] = writer
        return writer

    def _end(self, values: tuple[str | None, ...]) -> None:
        file = self._open.pop(values).close()
        if file is not None:
            names = (physical_name(field) for field in self._partitions)
            self._written.append(
                {
                    "path": file.path.removeprefix(self._root).lstrip("/"),
                    "partition_values": dict(zip(names, values, strict=True)),
                    "size": file.size,
                    "stats": file.stats,
                    "num_records": file.num_records,
                    "modification_time": time.time_ns() // 1_000_000,
                }
            )


def _create_directory(filesystem: pafs.FileSystem, path: str) -> None:
    """Create the directory of a file, on filesystems with real directories."""
    if isinstance(filesystem, pafs.LocalFileSystem):
        filesystem.create_dir(PurePosixPath(path).parent.as_posix())
