"""A table as a streaming source, through Spark's Python data source API; workers read the rows with Arrow.

For each stream Spark runs one process on the driver's machine, which follows the log, and sends what it plans to Python
workers. Both get storage options and credentials from their environment, like all other code here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.schema import StructType
from airflow_delta.core.schema.column_mapping import without_column_mapping
from airflow_delta.spark.change_feed.reader import ChangeReader
from airflow_delta.spark.errors import StreamSchemaChangedError
from airflow_delta.spark.io.file_tasks import described_shares
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.schema_conversion import to_spark
from airflow_delta.spark.streaming.admission import Admission
from airflow_delta.spark.streaming.change_tail import ChangeTail
from airflow_delta.spark.streaming.log_tail import LogTail
from airflow_delta.spark.streaming.offsets import StreamOffset
from airflow_delta.spark.streaming.options import StreamOptions

FORMAT = "delta_stream"
"""Name of the data source."""


class DeltaStreamSource(DataSource):  # type: ignore[misc]  # pyspark has no types here
    """``spark.readStream.format("delta_stream")``."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return FORMAT

    def schema(self) -> spark_types.StructType:
        """The columns of the stream's rows, from the table's present schema."""
        return _shown(open_tail(self.options).shown)

    def streamReader(self, schema: spark_types.StructType) -> DeltaStreamReader:  # noqa: N802 - Spark's name
        """The reader for this schema."""
        return DeltaStreamReader(dict(self.options), schema)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str | None, str, dict[str, str]]]:
        """Pickles the source with a loader: the process that plans batches cannot import code sent with a session.

        Another process on the same machine has that code, and passes the source on.
        """
        return _loader(), (getattr(globals().get("__loader__"), "archive", None), __name__, dict(self.options))


class FilesPartition(InputPartition):  # type: ignore[misc]
    """The files that one task reads."""

    def __init__(self, table: TableFiles, columns: StructType, files: tuple[str, ...], *, of_changes: bool) -> None:
        """Store the files, as the JSON texts that the stream's tail returned."""
        super().__init__(files)
        self.table = table
        self.columns = columns
        self.of_changes = of_changes

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows of the files, or the changes in them."""
        files = map(json.loads, self.value)
        if self.of_changes:
            return ChangeReader(table=self.table, columns=self.columns).of(files)
        return self.table.rows(self.columns).of_each(files)


class DeltaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Follows a table's log for one run of a stream."""

    def __init__(self, options: Mapping[str, str], schema: spark_types.StructType) -> None:
        """Open nothing yet: workers get a copy that is only used to call ``read``."""
        self._options = options
        self._schema = schema
        self._opened: LogTail | None = None
        self._target: int | None = None

    @property
    def _tail(self) -> LogTail:
        if self._opened is None:
            self._opened = open_tail(self._options)
            if _shown(self._opened.shown) != self._schema:
                table = self._opened.files.table_uri
                raise StreamSchemaChangedError(table=table, version=self._opened.latest_version())
        return self._opened

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """The offset at which a new stream begins."""
        return self._tail.first().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """A placeholder limit; ``latestOffset`` applies the stream's own limits."""
        return ReadMaxFiles(StreamOptions.of(self._options).max_files)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch. Raises as ``LogTail.advance``."""
        options = StreamOptions.of(self._options)
        takes_all = isinstance(limit, ReadAllAvailable)
        admission = Admission() if takes_all else Admission(options.max_files, options.max_bytes)
        last = self._tail.latest_version() if self._target is None else self._target
        return self._tail.advance(StreamOffset.from_json(start), last, admission).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the last version to read as the present one."""
        self._target = self._tail.latest_version()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The files of a batch, distributed over tasks."""
        files = self._tail.between(StreamOffset.from_json(start), StreamOffset.from_json(end))
        tail, of_changes = self._tail, isinstance(self._tail, ChangeTail)
        return [
            FilesPartition(tail.files, tail.schema, tuple(share), of_changes=of_changes) for share in described_shares(files)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the files, in a worker."""
        if not isinstance(partition, FilesPartition):
            raise TypeError(f"{partition!r} is none of ours")
        yield from partition.rows()

    def commit(self, end: dict[str, Any]) -> None:
        """Called when the checkpoint contains this offset."""
        self._tail.forget(StreamOffset.from_json(end))


def _loader() -> Callable[[str | None, str, dict[str, str]], Any]:
    """The function that recreates a source; nested, so that its code is sent along, and nothing of ours imported first."""

    def load(archive: str | None, module: str, options: dict[str, str]) -> Any:
        import importlib  # noqa: PLC0415
        import sys  # noqa: PLC0415

        if archive is not None and archive not in sys.path:
            sys.path.insert(0, archive)
        return importlib.import_module(module).DeltaStreamSource(options)

    return load


def open_tail(options: Mapping[str, str]) -> LogTail:
    """The table's log, as a stream with these options reads it. Raises as ``read_stream``."""
    given = StreamOptions.of(options)
    return (ChangeTail if given.reads_changes else LogTail)(DeltaLog.for_table(given.path), given)


def _shown(schema: StructType) -> spark_types.StructType:
    return to_spark(without_column_mapping(schema))
