"""File skipping by the Bloom filters in data files, for lookups where min/max statistics exclude no file.

Only files that statistics keep are checked, and only if they are few enough for one process to open them all: beyond that,
reading footers on the driver takes longer than it saves. A file whose filters cannot be read is kept.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.data_files.bloom_filters import UNREADABLE, FileBloomFilters, RowGroupFilters
from airflow_delta.core.data_files.stored_values import StoredType, stored_values
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.parquet.bloom_filter import Probes
from airflow_delta.core.parquet.xx_hash import hashes
from airflow_delta.core.schema import StructField
from airflow_delta.core.snapshot.lookups import AllOf, Lookup, Lookups, OneOf, each_lookup
from airflow_delta.core.storage.file_locator import FileLocator

MOST_FILES: Final = 2_000
"""The most files to check: a few seconds of requests, even to an object store."""

_THREADS = 16  # each holds at most one filter, of up to 8 MiB
_MOST_SECONDS = 60.0  # after this, every file not yet checked is kept


def without_skippable(files: pa.Table, lookups: Lookups, locate: FileLocator, *, by_id: bool = False) -> pa.Table:
    """The files that may hold the looked-up values; all files if there are more than ``MOST_FILES``.

    Args:
        files: Files with the column ``path``, as in the log.
        lookups: The values to look up.
        locate: Resolves a path of the log to a filesystem and a location in it.
        by_id: As of ``open_data_file``.
    """
    if not 0 < len(files) <= MOST_FILES:
        return files
    asked = _Asked(lookups, locate, by_id=by_id, ends=time.monotonic() + _MOST_SECONDS)
    with ThreadPoolExecutor(min(_THREADS, len(files))) as threads:
        return files.filter(pa.array(threads.map(asked.may_hold, files["path"].to_pylist()), pa.bool_()))


class _Asked:
    """Checks files against lookups. The values are hashed once for each stored type."""

    def __init__(self, lookups: Lookups, locate: FileLocator, *, by_id: bool, ends: float) -> None:
        self._lookups = lookups
        self._locate = locate
        self._by_id = by_id
        self._ends = ends
        self._fields = tuple({field.name: field for lookup in each_lookup(lookups) for field in lookup.fields}.values())
        self._probes: dict[tuple[Lookup, str, StoredType], Probes | None] = {}
        self._lock = Lock()

    def may_hold(self, path: str) -> bool:
        """Whether the file may hold a row that the lookups describe; True if its filters cannot be read, or time is up."""
        if time.monotonic() > self._ends:
            return True
        try:
            filesystem, location = self._locate(path)
            with filesystem.open_input_file(location) as source:
                filters = FileBloomFilters.read(source, self._fields, by_id=self._by_id)
                return any(self._in_row_group(self._lookups, filters, group) for group in filters.row_groups)
        except (*UNREADABLE, DeltaError):
            return True

    def _in_row_group(self, lookups: Lookups, filters: FileBloomFilters, group: RowGroupFilters) -> bool:
        match lookups:
            case AllOf(inner):
                return all(self._in_row_group(lookup, filters, group) for lookup in inner)
            case OneOf(inner):
                return any(self._in_row_group(lookup, filters, group) for lookup in inner)
            case Lookup(fields, values):
                return self._has_one(lookups, fields, values, filters, group)

    def _has_one(
        self,
        lookup: Lookup,
        fields: Sequence[StructField],
        values: Sequence[pa.Array],
        filters: FileBloomFilters,
        group: RowGroupFilters,
    ) -> bool:
        """Whether the row group may hold one of the rows of values. Columns without a filter are ignored."""
        held: pa.BooleanArray | None = None
        for field, array in zip(fields, values, strict=True):
            column = filters.columns.get(field.name)
            probes = None if column is None else self._hashed(lookup, field, array, column.type)
            found = None if column is None or probes is None else group.filter(column)
            if found is not None and probes is not None:
                of_column = found.holds(probes)
                held = of_column if held is None else pc.and_(held, of_column)
        return held is None or bool(pc.any(held).as_py())

    def _hashed(self, lookup: Lookup, field: StructField, values: pa.Array, stored: StoredType) -> Probes | None:
        key = (lookup, field.name, stored)
        with self._lock:
            if key not in self._probes:
                converted = stored_values(values, field.type, stored)
                self._probes[key] = None if converted is None else Probes.of(hashes(converted))
            return self._probes[key]
