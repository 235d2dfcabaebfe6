"""Writes the rows of a Spark plan as files that are ready to be committed.

One pass over the DataFrame writes the rows to the staging directory, counts them, and collects what the driver must know about
them. Nothing is computed twice, and files are only offered for a commit if their footers contain exactly as many rows as were
observed before writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.actions import ADD_FILE, CHANGE_FILE, NO_ADDS, Metadata
from airflow_delta.core.data_files.changed_rows import CHANGE_TYPE_FIELD
from airflow_delta.core.errors import ConstraintViolatedError
from airflow_delta.core.schema import StructType
from airflow_delta.core.schema.data_types import BINARY, STRING
from airflow_delta.spark.constraints.violations import as_stored, example_of, violations
from airflow_delta.spark.errors import StagedFilesError
from airflow_delta.spark.io.arrow_sink import write_held
from airflow_delta.spark.io.file_sink import FileSink
from airflow_delta.spark.io.partition_transport import PartitionTransport, partition_maps
from airflow_delta.spark.io.row_sink import write_files
from airflow_delta.spark.io.row_tracking import statistics_of
from airflow_delta.spark.io.small_work import is_done_here
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.io.table_files import schema_of
from airflow_delta.spark.io.written_files import WrittenFiles
from airflow_delta.spark.schema_conversion import quoted

_ROWS, _PARTITIONS, _VIOLATIONS, _EXAMPLE = "__rows", "__partitions", "__violations", "__example"
_NO_COLUMNS = StructType(())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StagedRows:
    """Rows that are written but not committed.

    Attributes:
        adds: The files, columns ``ADD_FILE``; none is empty.
        rows: Number of rows.
        observed: The caller's own aggregates over the rows.
    """

    adds: pa.Table = field(default_factory=lambda: NO_ADDS)
    rows: int = 0
    observed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Size of the files, in bytes."""
        return pc.sum(self.adds["size"]).as_py() or 0


def write_rows(
    frame: DataFrame,
    staging: StagingArea,
    metadata: Metadata,
    *,
    folder: str = "rows",
    observed: Mapping[str, Column] | None = None,
    data_change: bool = True,
    extra: StructType = _NO_COLUMNS,
    rows_per_file: int | None = None,
    size: int | None = None,
    held: pa.Table | None = None,
) -> StagedRows:
    """Write the rows below ``staging``, and describe the files as a commit adds them.

    Args:
        frame: Rows with the table's columns and ``extra``, by name and with their types; further columns are dropped after
            observing them.
        staging: Where to write; deleted by the caller's block.
        metadata: The table's metadata, existing or to be created.
        folder: Name of a directory below ``staging`` that no other write uses.
        observed: Aggregates to take over the rows in the same pass, by name.
        data_change: Whether the commit adds data, rather than rearranges it.
        extra: Columns of the files in addition to the table's own, without statistics: row ids of rows that already had one,
            see ``row_tracking.row_id_column``, and partition columns if the table requires them, see ``materialized_columns``.
        rows_per_file: As of ``write_files``.
        size: As of ``write_files``.
        held: The rows as Spark returned them, if this process holds them. It then writes few rows itself, unless something is
            to be checked or observed, or the table is partitioned.

    Raises:
        ConstraintViolatedError: A row violates a constraint of the table.
        TableRuleUnreadableError: A rule of the table is not valid Spark SQL.
        UnwritablePartitionValueError: The log cannot represent a partition value.
        StagedFilesError: The files do not match what Spark reported to have written.
    """
    # Moved rows were checked when they were first written; a rule about times may mean something else in this session's zone.
    schema = schema_of(metadata)
    constraints = violations(frame.sparkSession, metadata, schema, table=staging.table_uri) if data_change else {}
    frame = as_stored(frame, metadata) if constraints else frame
    broken = {f"{_VIOLATIONS}{index}": F.count_if(condition) for index, condition in enumerate(constraints.values())}
    example = {_EXAMPLE: example_of(constraints.values(), schema.names)} if constraints else {}
    aggregates = {**broken, **example, **(observed or {})}
    written, partitions = _write_through_sink(
        frame,
        staging,
        metadata,
        folder=folder,
        aggregates=aggregates,
        extra=extra,
        rows_per_file=rows_per_file,
        size=size,
        held=held,
    )
    for constraint, counter in zip(constraints, broken, strict=True):
        if rows := written.observed[counter]:
            shown = written.observed[_EXAMPLE]
            raise ConstraintViolatedError(table=staging.table_uri, constraint=constraint, rows=rows, example=shown)
    adds = _described(written.files, partitions, staging.table_uri, ADD_FILE, data_change=data_change)
    return StagedRows(
        adds=adds,
        rows=written.count(_ROWS, table=staging.table_uri),
        observed={name: written.observed[name] for name in observed or {}},
    )


def write_change_rows(
    frame: DataFrame, staging: StagingArea, metadata: Metadata, *, folder: str = "rows", size: int | None = None
) -> pa.Table:
    """Write change data below ``staging.changes``; returns the files as ``CHANGE_FILE``.

    Protocol: PROTOCOL.md, "Change Data Files". A commit with one such file must record all its changes in such files.

    Args:
        frame: Rows with the table's columns and ``_change_type``.
        staging: Where to write; deleted by the caller's block.
        metadata: The table's metadata.
        folder: Name of a directory below ``staging.changes`` that no other write uses.
        size: As of ``write_files``.

    Raises:
        UnwritablePartitionValueError: The log cannot represent a partition value.
        StagedFilesError: The files do not match what Spark reported to have written.
    """
    kind = StructType((CHANGE_TYPE_FIELD,))
    written, partitions = _write_through_sink(
        frame, staging.changes, metadata, folder=folder, aggregates={}, extra=kind, size=size
    )
    written.count(_ROWS, table=staging.table_uri)
    return _described(written.files, partitions, staging.table_uri, CHANGE_FILE, data_change=False)


def _write_through_sink(
    frame: DataFrame,
    staging: StagingArea,
    metadata: Metadata,
    *,
    folder: str,
    aggregates: Mapping[str, Column],
    extra: StructType,
    rows_per_file: int | None = None,
    size: int | None = None,
    held: pa.Table | None = None,
) -> tuple[WrittenFiles, Mapping[str, Mapping[str, str | None]]]:
    """Write the rows; returns the files, and the partition values for the names of their directories."""
    schema = schema_of(metadata)
    stored = schema.without(metadata.partition_columns)
    for column in extra.fields:
        if column.name in metadata.partition_columns and column.type in (STRING, BINARY):  # empty values are NULL in the log
            value = F.col(quoted(column.name))
            frame = frame.withColumn(column.name, F.when(F.length(value) > 0, value))
    transport = PartitionTransport(tuple(field for field in schema.fields if field.name in metadata.partition_columns))
    columns = StructType((*stored.fields, *extra.fields))
    directory = _directory_column(StructType((*schema.fields, *extra.fields))) if transport.fields else None
    aggregates = {_ROWS: F.count(F.lit(1)), **aggregates}
    if directory:
        # A partition becomes one file, or a few if it is large, instead of one for each task that has rows of it.
        frame = frame.withColumn(directory, transport.directory_id()).hint("rebalance", directory)
        aggregates[_PARTITIONS] = transport.observed(directory)
    configuration = statistics_of(stored, metadata.configuration) if extra.fields else metadata.configuration
    sink = FileSink(staging=staging, folder=folder, columns=columns, configuration=configuration, directory=directory)
    is_done = size is not None and is_done_here(frame.sparkSession, columns, size)
    if held is not None and is_done and aggregates.keys() == {_ROWS}:
        return WrittenFiles(files=write_held(held, sink), observed={_ROWS: len(held)}), {}
    written = write_files(frame, sink, aggregates, rows_per_file=rows_per_file, size=size)
    return written, transport.understood(written.observed.get(_PARTITIONS, ()), staging.table_uri)


def _directory_column(schema: StructType) -> str:
    """A name for the directory column that no column of the table has."""
    name = "part"
    while schema.find(name) is not None:
        name += "_"
    return name


def _described(
    files: pa.Table,
    partitions: Mapping[str, Mapping[str, str | None]],
    table: str,
    schema: pa.Schema,
    *,
    data_change: bool,
) -> pa.Table:
    """The non-empty files (``WRITTEN_FILE``) with the columns of an action.

    Raises:
        StagedFilesError: A directory does not belong to any observed row.
    """
    filled = files.filter(pc.greater(files["num_records"], 0))
    ids = filled["directory"].to_pylist() if partitions else []
    if unknown := set(ids) - partitions.keys():
        detail = f"files were found in the directories {', '.join(sorted(unknown))}, into which Spark wrote no rows"
        raise StagedFilesError(table=table, detail=detail)
    columns = {
        **{name: filled[name] for name in ("path", "size", "modification_time", "stats")},
        "partition_values": partition_maps([partitions[directory] for directory in ids] if partitions else [{}] * len(filled)),
        "data_change": pa.repeat(pa.scalar(data_change), len(filled)),
    }
    return pa.table([columns.get(field.name, pa.nulls(len(filled), field.type)) for field in schema], schema=schema)
