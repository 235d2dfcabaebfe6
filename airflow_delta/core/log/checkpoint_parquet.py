"""One Parquet file of a checkpoint: small actions as documents, file actions as columns, and of those only what is asked for.

Protocol: PROTOCOL.md, "Checkpoint Schema". Any column may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_delta.core.log.file_columns import file_columns, log_name
from airflow_delta.core.log.parsed_statistics import statistics_json
from airflow_delta.core.log.record_counts import NUM_RECORDS, record_counts

Choice: TypeAlias = Callable[[pa.RecordBatch], pa.BooleanArray]
"""Which files are wanted, by the columns ``FOR_CHOICE`` of some of them; without nulls."""

_BATCH_ROWS = 1 << 15
_BUFFER = 4 << 20  # Bytes of a column that are under way at once, instead of all of it.
_PARSED, _PARSED_RECORDS = "stats_parsed", "stats_parsed.numRecords"


class CheckpointFile:
    """A Parquet file, opened; what Arrow raises for a broken one passes through."""

    def __init__(self, stream: BinaryIO) -> None:
        self._file = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us", buffer_size=_BUFFER, pre_buffer=False)

    def documents(self, action: str) -> list[dict[str, Any]]:
        """All actions of a kind of which there are few."""
        if action not in self._names:
            return []
        groups = [group for group in range(self._file.num_row_groups) if not self._is_null(group, action)]
        return [
            document
            for group in groups
            for batch in self._file.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group], columns=[action])
            for document in batch[action].drop_null().to_pylist()
        ]

    def files(self, action: str, schema: pa.Schema, choice: Choice | None, for_choice: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The file actions of a kind, columns ``schema``.

        Args:
            action: ``add`` or ``remove``.
            schema: Fields of ``ADD_FILE`` or ``REMOVE_FILE``, and ``NUM_RECORDS``.
            choice: Which ones; all when None. Of a row group without such ones nothing more is read.
            for_choice: The columns that ``choice`` is asked with.
        """
        for group in range(self._file.num_row_groups) if action in self._names else ():
            if choice is None:
                yield from self._group(group, action, schema)
                continue
            masks = [choice(batch) for batch in self._columns(group, action, for_choice)]
            if any(pc.any(mask).as_py() for mask in masks):
                batches = zip(self._group(group, action, schema), masks, strict=True)
                yield from (batch.filter(mask) for batch, mask in batches)

    def _group(self, group: int, action: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """All columns that are wanted, those that are not in the log as such included."""
        if NUM_RECORDS.name not in schema.names:
            return self._with_statistics(group, action, schema)
        rest = [field for field in schema if field != NUM_RECORDS]
        if self._has_all_counts(group, action):
            parsed = self._present(group, action, [_PARSED_RECORDS])
            counts = (pc.struct_field(each, [_PARSED, "numRecords"]).cast(pa.int64()) for each in parsed)
            pairs = zip(self._with_statistics(group, action, pa.schema(rest)), counts, strict=True)
            return (_in_order(schema, batch, count) for batch, count in pairs)
        with_statistics = pa.schema(rest if "stats" in schema.names else [*rest, _STATISTICS])
        batches = self._with_statistics(group, action, with_statistics)
        return (_in_order(schema, batch, record_counts(batch["stats"])) for batch in batches)

    def _with_statistics(self, group: int, action: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """These columns of the log; statistics that are there only as a struct become JSON."""
        batches = self._columns(group, action, schema)
        leaf = f"{action}.{_PARSED}"
        if "stats" not in schema.names or self._is_null(group, leaf):
            return batches
        found = list(batches)
        if not any(each["stats"].null_count for each in found):
            return iter(found)
        instants = self._int96_leaves(f"{leaf}.")
        parsed = self._present(group, action, [_PARSED])
        return (_with_parsed(each, more, instants) for each, more in zip(found, parsed, strict=True))

    def _columns(self, group: int, action: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        wanted = [name for field in schema if not self._is_null(group, f"{action}.{(name := log_name(field.name))}")]
        for actions in self._present(group, action, wanted or ["path"]):
            batch = file_columns(actions, schema)
            batch.validate(full=True)  # Arrow takes any bytes for text
            yield batch

    def _present(self, group: int, action: str, columns: Sequence[str]) -> Iterator[pa.StructArray]:
        """These columns of the actions in equal pieces, whatever the columns are."""
        paths = [f"{action}.{name}" for name in columns]
        for batch in self._file.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group], columns=paths):
            actions = batch[action]
            yield actions.filter(actions.is_valid()) if actions.null_count else actions

    # -- what the footer tells

    @cached_property
    def _names(self) -> Collection[str]:
        return self._file.schema_arrow.names

    @cached_property
    def _leaves(self) -> list[tuple[str, str]]:
        """Path and physical type of each leaf."""
        leaves = (self._file.schema.column(index) for index in range(len(self._file.schema)))
        return [(leaf.path, leaf.physical_type) for leaf in leaves]

    def _is_null(self, group: int, column: str) -> bool:
        """Whether the footer says that the column holds nothing in this row group, or it is not there."""
        chunks = self._file.metadata.row_group(group)
        within = f"{column}."
        return all(
            _nulls(chunk := chunks.column(index)) == chunk.num_values
            for index, (path, _) in enumerate(self._leaves)
            if path == column or path.startswith(within)
        )

    def _has_all_counts(self, group: int, action: str) -> bool:
        """Whether each action has its number of records in the parsed statistics."""
        chunks = self._file.metadata.row_group(group)
        found = {path: chunks.column(index) for index, (path, _) in enumerate(self._leaves)}
        counts, paths = found.get(f"{action}.{_PARSED_RECORDS}"), found.get(f"{action}.path")
        return bool(counts and paths and _nulls(counts) is not None and _nulls(counts) == _nulls(paths))

    def _int96_leaves(self, prefix: str) -> frozenset[str]:
        return frozenset(path.removeprefix(prefix) for path, kind in self._leaves if kind == "INT96")


_STATISTICS = pa.field("stats", pa.string())


def _nulls(chunk: pq.ColumnChunkMetaData) -> int | None:
    statistics = chunk.statistics
    return statistics.null_count if statistics is not None and statistics.has_null_count else None


def _in_order(schema: pa.Schema, batch: pa.RecordBatch, counts: pa.Array) -> pa.RecordBatch:
    columns = [counts if field == NUM_RECORDS else batch[field.name] for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_parsed(files: pa.RecordBatch, parsed: pa.StructArray, instants: Collection[str]) -> pa.RecordBatch:
    text = pc.coalesce(files["stats"], statistics_json(pc.struct_field(parsed, _PARSED), instants))
    return files.set_column(files.schema.get_field_index("stats"), _STATISTICS, text)
