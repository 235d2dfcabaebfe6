"""Rows that a statement computes once and reads several times: they survive the loss of executors, and are released at its end.

How they are kept depends on what is lost with an executor, and whether it can be computed again:

- With a local master (``local[4]``) there is no executor to lose but the driver. Rows stay in its memory and on its disk
  (``localCheckpoint``), which is the fastest way.
- Rows that are the same whenever they are computed are cached with their lineage (``persist``): Spark recomputes only what was
  lost. This includes the changes of rows: they are computed from data files, which never change, by expressions that Spark
  knows to be deterministic, and their order does not matter.
- All other rows would differ the second time from what was already counted and written: a source may be any query (with random
  numbers, with an arbitrary choice of rows, over data that keeps growing), and values of identity columns depend on the order
  of rows, which a shuffle does not guarantee. They are written as Parquet files to a directory of the table, which the
  statement deletes again: wherever it runs, it can read and write there. With Spark Connect all rows are kept this way, as it
  does not show which rows repeat.

With Spark Connect, small results are kept by this process, and sent along with what uses them: ``small_work``.

Columns of types that table files cannot store (intervals, strings with a collation) only allow ``localCheckpoint``, and so does
a dry run, which writes nothing: such rows are lost with their executor, and ``retry_on_conflict`` then starts again.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql.types import StructField as SparkField
from pyspark.sql.types import StructType as SparkStruct

from airflow_delta.core.actions import ADD_FILE
from airflow_delta.core.errors import UnsupportedTypeError
from airflow_delta.core.foreign_values import printable_lines
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.column_mapping import MappingMode
from airflow_delta.core.schema.data_types import VOID
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.spark.io.all_nullable import all_nullable
from airflow_delta.spark.io.file_sink import FileSink
from airflow_delta.spark.io.float_order import with_floats_unskipped
from airflow_delta.spark.io.jvm_sink import fit_for_jvm
from airflow_delta.spark.io.row_sink import write_files
from airflow_delta.spark.io.scan import SCANNED_COLUMNS, read_files
from airflow_delta.spark.io.small_work import MOST_BYTES, HeldRows, is_done_here
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.jvm import checkpointed, is_connect, release_checkpoint, repeats
from airflow_delta.spark.schema_conversion import from_spark, to_spark
from airflow_delta.spark.session import has_executors
from airflow_delta.spark.spark_features import aggregated, observe, sends_observations

_log = logging.getLogger(__name__)

_FOLDER, _ROWS = "rows", "rows"
_NO_STATISTICS = {"delta.dataSkippingNumIndexedCols": "0"}


class Kept(NamedTuple):
    """Rows that are kept.

    Attributes:
        frame: The rows.
        observed: The aggregates over them, by name.
    """

    frame: DataFrame
    observed: Mapping[str, Any]


class RowCache:
    """Keeps rows for a statement, or for one attempt of it; use it as a context manager."""

    def __init__(self, store: LogStore | None) -> None:
        """Nothing is kept yet.

        Args:
            store: The table's store, to which rows may be written; None if nothing may be written, as in a dry run.
        """
        self._store = store
        self._releases = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()

    def release(self) -> None:
        """Release all rows; the cache can be used again. Never raises, so as not to hide a commit or an error."""
        self._releases.close()

    def keep_here(self, rows: DataFrame, size: int) -> HeldRows | None:
        """Compute the rows, and keep them in this process; None if it is not used for that, or if there are too many rows.

        Args:
            rows: The rows.
            size: Most bytes that they take in memory, approximately.

        Raises:
            As computing the rows does.
        """
        spark = rows.sparkSession
        if not is_connect(spark) or size > MOST_BYTES:  # before the server is asked for their types
            return None
        if len(set(rows.columns)) < len(rows.columns):
            return None
        try:
            columns = from_spark(rows.schema)
        except UnsupportedTypeError:
            return None
        if not is_done_here(spark, columns, size):
            return None
        found = rows.toArrow()
        return None if found.nbytes > MOST_BYTES else HeldRows(spark.createDataFrame(found, rows.schema), found)

    def keep(self, rows: DataFrame, aggregates: Mapping[str, Column], *, of_fixed_files: bool = False) -> Kept:
        """Compute and keep the rows; returns them with aggregates over them, by name, taken in the same pass.

        Args:
            rows: The rows.
            aggregates: If empty, the rows may only be computed, and kept, by the first action on them.
            of_fixed_files: Whether the rows, apart from subqueries, are computed only from files that never change, and their
                order does not matter.

        Raises:
            As computing the rows does.
        """
        if not has_executors(rows.sparkSession):
            return self._in_checkpoint(rows, aggregates)
        if of_fixed_files and repeats(rows):
            return self._with_lineage(rows, aggregates)
        if self._store is None:
            return self._in_checkpoint(rows, aggregates)
        try:
            return self._in_files(rows, aggregates, self._store)
        except (UnsupportedTypeError, AnalysisException):  # if anything else is wrong with the rows, the fallback raises again
            return self._in_checkpoint(rows, aggregates)

    def _in_checkpoint(self, rows: DataFrame, aggregates: Mapping[str, Column]) -> Kept:
        kept = checkpointed(rows)
        self.at_end(partial(release_checkpoint, kept))
        return Kept(kept, _computed(kept, aggregates))

    def _with_lineage(self, rows: DataFrame, aggregates: Mapping[str, Column]) -> Kept:
        kept = rows.persist()
        self.at_end(kept.unpersist)
        return Kept(with_floats_unskipped(kept), _computed(kept, aggregates))

    def _in_files(self, rows: DataFrame, aggregates: Mapping[str, Column], store: LogStore) -> Kept:
        """Keep the rows in files. File columns are named by position, as two columns may have the same name."""
        shown = rows.schema.fields
        renamed = [SparkField(str(position), field.dataType, metadata=field.metadata) for position, field in enumerate(shown)]
        plain = (StructField(field.name, field.type) for field in from_spark(SparkStruct(renamed)).fields)
        schema = all_nullable(StructType(tuple(field for field in plain if field.type != VOID)), keep=())
        types = {field.name: field.dataType.simpleString() for field in to_spark(schema).fields}
        for position, field in enumerate(shown):
            if types.get(str(position), str(VOID)) != (found := field.dataType.simpleString()):
                raise UnsupportedTypeError(type=found)
        staging = StagingArea(store)
        self.at_end(staging.discard)
        fit = fit_for_jvm(rows)  # before observing them, which ties them to their session
        counted, observed = _observed(rows if fit is None else fit, aggregates)
        named = counted.toDF(*map(str, range(len(shown))))
        sink = FileSink(staging=staging, folder=_FOLDER, columns=schema, configuration=_NO_STATISTICS)
        written = write_files(named, sink, {_ROWS: F.count(F.lit(1))})
        written.count(_ROWS, table=staging.table_uri)
        kept = read_files(rows.sparkSession, _scanned(written.files), _table_files(store, schema))
        columns = (F.col(str(position)) if str(position) in schema.names else F.lit(None) for position in range(len(shown)))
        pairs = zip(columns, shown, strict=True)
        named_again = kept.select(*(column.alias(field.name, metadata=field.metadata) for column, field in pairs))
        return Kept(named_again, observed())

    def at_end(self, release: Callable[[], object]) -> None:
        """Register a function to call when the rows are released; its exceptions are logged."""
        self._releases.callback(_quietly, release)


def _computed(kept: DataFrame, aggregates: Mapping[str, Column]) -> Mapping[str, Any]:
    """The aggregates over rows that are kept once computed, taken in the one job that does so; without aggregates, no job."""
    if not aggregates:
        return {}
    if not sends_observations(kept.sparkSession):
        return aggregated(kept, aggregates)
    counted, observed = observe(kept, aggregates)
    counted.write.format("noop").mode("overwrite").save()
    return observed()


def _observed(rows: DataFrame, aggregates: Mapping[str, Column]) -> tuple[DataFrame, Callable[[], Mapping[str, Any]]]:
    """As ``observe``, but allows no aggregates at all."""
    return observe(rows, aggregates) if aggregates else (rows, dict)


def _quietly(release: Callable[[], object]) -> None:
    try:
        release()
    except Exception:  # noqa: BLE001 - the session may have ended, in whatever way
        _log.warning("could not release cached rows:\n%s", printable_lines(traceback.format_exc()))


def _table_files(store: LogStore, schema: StructType) -> TableFiles:
    return TableFiles(
        table_uri=store.table_uri,
        schema=schema,
        partition_columns=(),
        mapping=MappingMode.NONE,
        storage_options=store.storage_options,
        allowed_prefixes=store.allowed_prefixes,
    )


def _scanned(written: pa.Table) -> pa.Table:
    """The written files (``WRITTEN_FILE``), with the columns that a scan needs."""
    filled = written.filter(pc.greater(written["num_records"], 0))
    fields = [ADD_FILE.field(name) for name in SCANNED_COLUMNS]
    known = {"path": filled["path"], "size": filled["size"], "partition_values": pa.array([{}] * len(filled), fields[1].type)}
    return pa.table([known.get(field.name, pa.nulls(len(filled), field.type)) for field in fields], schema=pa.schema(fields))
