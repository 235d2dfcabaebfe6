"""The data source that Spark registers as ``delta``.

Spark creates one in a Python worker of the driver for each read and write, so it has access to the log, but not to the session.
"""

from __future__ import annotations

from pyspark.sql import types as spark_types
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.schema import struct_from_arrow, without_column_mapping
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.spark.data_source.reader import ChangesReader, RowsReader
from airflow_delta.spark.data_source.write_plan import plan_write
from airflow_delta.spark.data_source.writer import DeltaWriter
from airflow_delta.spark.schema_conversion import from_spark, to_spark
from airflow_delta.spark.statement.format_options import ReadOptions, WriteOptions
from airflow_delta.spark.supported_features import check_scannable


class DeltaDataSource(DataSource):  # type: ignore[misc] # PySpark is not typed here
    """Reads and writes tables by path."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "delta"

    def schema(self) -> spark_types.StructType:
        """The columns that are read.

        Raises:
            InvalidStatementError: An option is unknown, or its value is invalid.
            TableNotFoundError: There is no table. Also whatever else reading its version raises.
        """
        options = ReadOptions.of(self.options)
        if options.changes is not None:
            with DeltaLog.for_table(options.path).changes(*options.changes) as feed:
                return to_spark(struct_from_arrow(feed.schema))
        return to_spark(without_column_mapping(_snapshot(options).schema))

    def reader(self, schema: spark_types.StructType) -> DataSourceReader:
        """The reader of the rows, or of the changes. Raises as ``schema``."""
        options = ReadOptions.of(self.options)
        if options.changes is None:
            return RowsReader(_snapshot(options), schema)
        covered, last = DeltaLog.for_table(options.path).changed_range(*options.changes)
        check_scannable(last.table_uri, last.protocol, last.metadata)
        return ChangesReader(last, covered, schema)

    def writer(self, schema: spark_types.StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        """The writer of rows, which commits them once. Raises as ``plan_write``."""
        return DeltaWriter(plan_write(WriteOptions.of(self.options), from_spark(schema), overwrite=overwrite))


def _snapshot(options: ReadOptions) -> Snapshot:
    snapshot = DeltaLog.for_table(options.path).snapshot(options.version, options.timestamp)
    check_scannable(snapshot.table_uri, snapshot.protocol, snapshot.metadata)
    return snapshot
