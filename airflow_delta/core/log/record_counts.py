"""The number of rows in each file, extracted from its statistics without parsing the rest.

Protocol: PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions.file_actions import ADD_FILE
from airflow_delta.core.json_text import parse_json

NUM_RECORDS = pa.field("num_records", pa.int64())
"""Physical rows of a file; null if its statistics lack the number. Not a column of the log, but requested like one."""

COUNTED_FILE = (*(name for name in ADD_FILE.names if name != "stats"), NUM_RECORDS.name)
"""Columns of files with the number of rows instead of the statistics, which need more memory than all other columns."""

_FIRST_MEMBER = r'^\s*\{\s*"numRecords"\s*:\s*(?P<count>[0-9]{1,12})\s*[,}]'
"""Matches ``numRecords`` as the first member, where every known writer puts it; otherwise the whole text is parsed."""


_LIMIT = 10**12
"""No file has this many rows: a larger number is ignored, so that the sum over millions of files fits 64 bits."""


def record_counts(statistics: pa.Array) -> pa.Array:
    """Physical rows of each file; null if the statistics lack the number.

    Args:
        statistics: JSON texts as in the log.
    """
    counts = pc.struct_field(pc.extract_regex(statistics, _FIRST_MEMBER), "count").cast(pa.int64())
    if counts.null_count == statistics.null_count:
        return counts
    is_open = pc.and_(counts.is_null(), statistics.is_valid())
    return pc.replace_with_mask(counts, is_open, pa.array(map(_count, statistics.filter(is_open).to_pylist()), pa.int64()))


def plausible_counts(counts: pa.Array) -> pa.Array:
    """Row counts (int64), with null for negative or impossibly large ones."""
    return pc.if_else(pc.and_(pc.greater_equal(counts, 0), pc.less(counts, _LIMIT)), counts, None)


def with_record_counts(files: pa.Table, columns: Iterable[str]) -> pa.Table:
    """These columns of the files, in this order; ``NUM_RECORDS`` is computed from ``stats`` if requested and missing."""
    wanted = list(columns)
    if NUM_RECORDS.name in wanted and NUM_RECORDS.name not in files.column_names:
        counts = pa.chunked_array([record_counts(chunk) for chunk in files["stats"].chunks], NUM_RECORDS.type)
        files = files.append_column(NUM_RECORDS, counts)
    return files.select(wanted)


def live_rows(files: pa.Table) -> int:
    """Rows of these files (``ADD_FILE``) not marked by a deletion vector; files without statistics count as 0 rows."""
    records = pc.sum(with_record_counts(files, [NUM_RECORDS.name])[NUM_RECORDS.name]).as_py() or 0
    hidden = pc.sum(plausible_counts(pc.struct_field(files["deletion_vector"], "cardinality"))).as_py() or 0
    return int(records - hidden)


def _count(text: str) -> int | None:
    try:
        document: Any = parse_json(text)
    except ValueError:
        return None
    count = document.get("numRecords") if isinstance(document, dict) else None
    return count if type(count) is int and 0 <= count < _LIMIT else None
