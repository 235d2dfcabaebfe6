"""Rows that come out of a Spark plan, written by Spark's own Parquet writer as files ready to be committed.

One pass over the DataFrame writes the rows into the staging directory, counts them, and collects what the driver must know of
them. Nothing that the plan computes is computed twice, and files are only offered for a commit when their footers hold exactly
as many rows as were observed on their way into the writer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.actions import ADD_FILE, NO_ADDS, Metadata
from airflow_delta.core.errors import ConstraintViolatedError
from airflow_delta.core.schema import StructType, parse_schema
from airflow_delta.spark import not_null
from airflow_delta.spark.errors import StagedFilesError
from airflow_delta.spark.footers import read_footers
from airflow_delta.spark.partition_transport import PartitionTransport, partition_maps
from airflow_delta.spark.session import session_settings
from airflow_delta.spark.spark_schema import quoted
from airflow_delta.spark.staging import StagingArea

_OPTIONS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # Spark's default is INT96: no statistics, no order
    "spark.sql.parquet.writeLegacyFormat": "false",
    "mapreduce.fileoutputcommitter.algorithm.version": "1",  # 2 shows files of tasks that fail later
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_SETTINGS = {"spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED"}  # the one that no option of a write reaches
_ROWS, _PARTITIONS, _VIOLATIONS = "__rows", "__partitions", "__violations"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StagedRows:
    """Rows that are written but not committed.

    Attributes:
        adds: The files, columns ``ADD_FILE``; none of them is empty.
        rows: Rows in them.
        observed: The caller's own aggregates over the rows.
    """

    adds: pa.Table = field(default_factory=lambda: NO_ADDS)
    rows: int = 0
    observed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return pc.sum(self.adds["size"]).as_py() or 0


def write_rows(
    frame: DataFrame,
    staging: StagingArea,
    metadata: Metadata,
    *,
    folder: str = "rows",
    observed: Mapping[str, Column] | None = None,
    data_change: bool = True,
) -> StagedRows:
    """Write the rows below ``staging`` and describe the files as a commit adds them.

    Args:
        frame: Has the table's columns, by name and of its types; the writer drops further ones after observing them.
        staging: Where to write; the caller's block ends it.
        metadata: The table's metadata, existing or to be created.
        folder: Name of a directory below ``staging`` that no other write uses.
        observed: Aggregates to be taken over the rows in the same pass, by name.
        data_change: Whether the commit adds data, rather than rearranges it.

    Raises:
        ConstraintViolatedError: NULL where the schema promises a value.
        InvalidPartitionValueError: A partition value that the log cannot hold.
        StagedFilesError: The files are not what Spark said that it wrote.
    """
    schema = parse_schema(metadata.schema_string)
    stored = schema.without(metadata.partition_columns)
    transport = PartitionTransport(tuple(each for each in schema.fields if each.name in metadata.partition_columns))
    directory = _directory_column(schema) if transport.fields else None
    promises = not_null.violations(schema, metadata.partition_columns)
    aggregates = {
        _ROWS: F.count(F.lit(1)),
        **{f"{_VIOLATIONS}{index}": F.count_if(broken) for index, broken in enumerate(promises.values())},
        **(observed or {}),
    }
    if directory:
        # A partition becomes one file, or some where it is large, instead of one for each task that holds rows of it.
        frame = frame.withColumn(directory, transport.directory_id()).hint("rebalance", directory)
        aggregates[_PARTITIONS] = transport.observed(directory)
    found = _write(frame, f"{staging.uri}/{folder}", stored.names, directory, aggregates)
    for index, promise in enumerate(promises):
        if broken_rows := found[f"{_VIOLATIONS}{index}"]:
            raise ConstraintViolatedError(table=staging.table_uri, constraint=promise, rows=broken_rows)
    files = staging.list_files(folder)
    footers = read_footers(frame.sparkSession, staging.table_uri, [each.path for each in files], stored, metadata.configuration)
    if (in_files := pc.sum(footers["num_records"]).as_py() or 0) != found[_ROWS]:
        detail = f"Spark wrote {found[_ROWS]} rows, the footers of {len(files)} files count {in_files}"
        raise StagedFilesError(table=staging.table_uri, detail=detail)
    partitions = transport.understood(found.get(_PARTITIONS, ()), staging.table_uri)
    adds = _adds(staging, files, footers, partitions, data_change=data_change)
    return StagedRows(adds=adds, rows=in_files, observed={name: found[name] for name in observed or {}})


def _write(
    frame: DataFrame, uri: str, columns: Sequence[str], directory: str | None, aggregates: Mapping[str, Column]
) -> dict[str, Any]:
    """Write the columns, spread over directories by one more, and return the aggregates over the rows as they were written."""
    observation = Observation()
    rows = frame.observe(observation, *(aggregate.alias(name) for name, aggregate in aggregates.items()))
    spread = [directory] if directory else []
    with session_settings(frame.sparkSession, _SETTINGS):
        rows.select(*spread, *map(quoted, columns)).write.options(**_OPTIONS).partitionBy(*spread).parquet(uri)
    return observation.get


def _directory_column(schema: StructType) -> str:
    """A name for the directories' column that no column of the table has."""
    name = "part"
    while schema.find(name) is not None:
        name += "_"
    return name


def _adds(
    staging: StagingArea,
    files: list[pafs.FileInfo],
    footers: pa.Table,
    partitions: Mapping[str, Mapping[str, str | None]],
    *,
    data_change: bool,
) -> pa.Table:
    """The files that hold rows, as ``ADD_FILE``.

    Raises:
        StagedFilesError: A directory that no observed row belongs to.
    """
    listed = {each.path: each for each in files}
    found = footers.filter(pc.greater(footers["num_records"], 0))
    described = [listed[path] for path in found["path"].to_pylist()]
    ids = [PurePosixPath(each.path).parent.name.rpartition("=")[2] for each in described] if partitions else []
    if unknown := set(ids) - partitions.keys():
        raise StagedFilesError(
            table=staging.table_uri, detail=f"the directories {sorted(unknown)} hold rows that nobody observed"
        )
    columns = {
        "path": pa.array([staging.log_path(each.path) for each in described], pa.string()),
        "partition_values": partition_maps([partitions[each] for each in ids] if partitions else [{}] * len(described)),
        "size": pa.array([each.size for each in described], pa.int64()),
        "modification_time": pa.array([each.mtime_ns // 1_000_000 for each in described], pa.int64()),
        "data_change": pa.repeat(pa.scalar(data_change), len(described)),
        "stats": found["stats"],
    }
    return pa.table([columns.get(each.name, pa.nulls(len(described), each.type)) for each in ADD_FILE], schema=ADD_FILE)
