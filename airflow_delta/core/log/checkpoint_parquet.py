"""One Parquet file of a checkpoint: reads non-file actions as documents, and only the requested columns of file actions.

Protocol: PROTOCOL.md, "Checkpoint Schema". Any column may be missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_delta.core.log.file_columns import file_columns, log_name
from airflow_delta.core.log.parsed_statistics import statistics_json
from airflow_delta.core.log.record_counts import NUM_RECORDS, plausible_counts, record_counts
from airflow_delta.core.parquet.foreign_footer import ForeignFooter

RowFilter: TypeAlias = Callable[[pa.RecordBatch], pa.BooleanArray]
"""Which of the files in a batch are wanted, given some of their columns; a result without NULLs."""


@dataclass(frozen=True, slots=True)
class FileFilter:
    """Selects files before all of their columns are read.

    Attributes:
        columns: The columns of ``ADD_FILE`` that the filter needs.
        rows: The filter.
    """

    columns: pa.Schema
    rows: RowFilter


_BATCH_ROWS = 1 << 15
_MOST_PER_BYTE = 200  # decoded bytes of the columns per byte of the file
_BYTES_OF_ACTION, _FEW = 4, 1000  # least compressed bytes per action, where there are more than a few
_BUFFER = 4 << 20  # bytes of a column that are buffered at once, instead of the whole column
_ALWAYS_THERE = {"path", "size", "partitionValues", "modificationTime", "dataChange"}  # always present, so not checked
_LOOKED_AT, _PLAIN = ("BOOLEAN", "BYTE_ARRAY", "INT32", "INT64"), ("NONE", "STRING")
"""Physical and logical types whose statistics Arrow evaluates when it reads rows; decimals are not among them."""
_PARSED, _PARSED_RECORDS = "stats_parsed", "stats_parsed.numRecords"


class CheckpointFile:
    """An open Parquet file. Errors that Arrow raises for a broken file are passed on.

    Raises:
        ValueError: The file claims to hold far more actions, of which no two are equal, than a file of its size can.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._size = stream.seek(0, os.SEEK_END)
        self._footer = cache(lambda: ForeignFooter.read(pa.PythonFile(stream, "r")))
        self._file = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us", buffer_size=_BUFFER, pre_buffer=False)
        footer = self._file.metadata
        content = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
        if footer.num_rows > self._size or content > self._size * _MOST_PER_BYTE + _BUFFER:
            detail = f"{footer.num_rows} rows and {content} bytes in a file of {self._size} bytes"
            raise ValueError(f"{detail}; the bounds are a row for each byte, and {_MOST_PER_BYTE} bytes")

    def documents(self, action: str) -> list[dict[str, Any]]:
        """All actions of one kind, for kinds with few actions. Raises ``ValueError`` for more than the file could hold."""
        found: list[dict[str, Any]] = []
        for group in self._groups(action):
            for actions in group.read([action]) if not group.is_null(action) else ():
                if len(found) + len(actions) > self._size // _BYTES_OF_ACTION + _FEW:
                    raise ValueError(f"more than {len(found)} {action} actions in a file of {self._size} bytes")
                found += actions.to_pylist()
        return found

    def files(self, action: str, schema: pa.Schema, file_filter: FileFilter | None) -> Iterator[pa.RecordBatch]:
        """The file actions of one kind, with the columns of ``schema``.

        Args:
            action: ``add`` or ``remove``.
            schema: Fields of ``ADD_FILE`` or ``REMOVE_FILE``, and ``NUM_RECORDS``.
            file_filter: Which files; all when None. Of a row group without a match, no further column is read.
        """
        for group in self._groups(action):
            masks = [file_filter.rows(batch) for batch in group.all_columns(file_filter.columns)] if file_filter else None
            if masks is None or any(pc.any(mask).as_py() for mask in masks):
                yield from replace(group, masks=masks).all_columns(schema)

    def _groups(self, action: str) -> list[_RowGroup]:
        if action not in self._file.schema_arrow.names:
            return []
        numbers = range(self._file.num_row_groups)
        return [_RowGroup(file=self._file, footer=self._footer, number=number, action=action) for number in numbers]


@dataclass(frozen=True, kw_only=True, eq=False)
class _RowGroup:
    """The actions of one kind in a row group.

    Attributes:
        footer: The file opened a second time, to inspect its metadata: that takes longer than reading a few actions, and is
            seldom needed.
        masks: Which actions are wanted, one mask for each piece that ``read`` returns; all when None.
    """

    file: pq.ParquetFile
    footer: Callable[[], ForeignFooter]
    number: int
    action: str
    masks: Sequence[pa.BooleanArray] | None = None

    def all_columns(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """These columns, including those that the log does not hold as such."""
        if NUM_RECORDS.name not in schema.names:
            return self._with_statistics(schema)
        rest = [field for field in schema if field != NUM_RECORDS]
        if self._has_all_counts():
            parsed = self.read([f"{self.action}.{_PARSED_RECORDS}"])
            counts = (plausible_counts(pc.struct_field(batch, [_PARSED, "numRecords"]).cast(pa.int64())) for batch in parsed)
            pairs = zip(self._with_statistics(pa.schema(rest)), counts, strict=True)
            return (_in_order(schema, batch, count) for batch, count in pairs)
        batches = self._with_statistics(pa.schema(rest if "stats" in schema.names else [*rest, _STATISTICS]))
        return (_in_order(schema, batch, record_counts(batch["stats"])) for batch in batches)

    def _with_statistics(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """These columns of the log; where statistics exist only as a struct, they are converted to JSON."""
        batches, leaf = self.columns(schema), f"{self.action}.{_PARSED}"
        if "stats" not in schema.names or not self._indexes(leaf):
            return batches
        found = list(batches)
        if not any(batch["stats"].null_count for batch in found) or self.is_null(leaf):
            return iter(found)
        instants = frozenset(below.path.removeprefix(f"{leaf}.") for below in self._leaves if below.physical_type == "INT96")
        return (_with_parsed(batch, more, instants) for batch, more in zip(found, self.read([leaf]), strict=True))

    def columns(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """These columns of the log."""
        names = [f"{self.action}.{log_name(field.name)}" for field in schema]
        for actions in self.read([name for name in names if not self.is_null(name)] or [f"{self.action}.path"]):
            batch = file_columns(actions, schema)
            batch.validate(full=True)  # Arrow accepts any bytes as text
            yield batch

    def read(self, columns: Sequence[str]) -> Iterator[pa.StructArray]:
        """The actions with only these columns, in pieces whose boundaries do not depend on the columns."""
        batches = self.file.iter_batches(batch_size=_BATCH_ROWS, row_groups=[self.number], columns=columns)
        rows = (batch[self.action] for batch in batches)
        present = (row.drop_null() if row.null_count else row for row in rows)
        if self.masks is None:
            return present
        return (actions.filter(mask) for actions, mask in zip(present, self.masks, strict=True))

    # -- what the footer says

    @cached_property
    def _leaves(self) -> list[pq.ColumnSchema]:
        return [self.file.schema.column(index) for index in range(len(self.file.schema))]

    @cached_property
    def _paths(self) -> list[str]:
        return [leaf.path for leaf in self._leaves]

    def _indexes(self, column: str) -> list[int]:
        """Indexes of the column's leaves."""
        return [index for index, path in enumerate(self._paths) if path == column or path.startswith(f"{column}.")]

    def _counts(self, column: str) -> Iterator[tuple[int | None, int]]:
        """For each leaf of the column in this row group: the number of NULLs, if known, and the number of values.

        Arrow aborts the process when it reads the metadata of a damaged column chunk. So one row is read first: that raises
        ``OSError`` instead, though not for all types.
        """
        indexes, group = self._indexes(column), self.file.metadata.row_group(self.number)
        if indexes:
            next(self.file.iter_batches(batch_size=1, row_groups=[self.number], columns=[column]), None)
        for index in sorted(indexes, key=self._is_looked_at, reverse=True):
            if not (group.num_rows and self._is_looked_at(index)) and index in self.footer().unreadable:
                yield None, group.num_rows
                continue
            chunk = group.column(index)
            if chunk.physical_type != self._leaves[index].physical_type:
                raise OSError(f"a row group says that {column} has another type than the schema")
            statistics = chunk.statistics
            yield statistics.null_count if statistics is not None and statistics.has_null_count else None, chunk.num_values

    def _is_looked_at(self, index: int) -> bool:
        """Whether Arrow evaluates this leaf's statistics when it reads rows."""
        leaf = self._leaves[index]
        return leaf.physical_type in _LOOKED_AT and leaf.logical_type.type in _PLAIN

    def is_null(self, column: str) -> bool:
        """Whether the column is missing, or all NULL according to the footer."""
        if column.rpartition(".")[2] in _ALWAYS_THERE:
            return not self._indexes(column)
        return all(nulls == values for nulls, values in self._counts(column))

    def _has_all_counts(self) -> bool:
        """Whether the parsed statistics of every action include the number of records."""
        counts, paths = ([nulls for nulls, _ in self._counts(f"{self.action}.{name}")] for name in (_PARSED_RECORDS, "path"))
        return counts == paths and counts not in ([], [None])


_STATISTICS = pa.field("stats", pa.string())


def _in_order(schema: pa.Schema, batch: pa.RecordBatch, counts: pa.Array) -> pa.RecordBatch:
    columns = [counts if field == NUM_RECORDS else batch[field.name] for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_parsed(files: pa.RecordBatch, parsed: pa.StructArray, instants: Collection[str]) -> pa.RecordBatch:
    text = pc.coalesce(files["stats"], statistics_json(pc.struct_field(parsed, _PARSED), instants))
    return files.set_column(files.schema.get_field_index("stats"), _STATISTICS, text)
