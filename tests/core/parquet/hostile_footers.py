"""Asks Arrow for odd statistics in footers, but not for unreadable ones; a program of its own because Arrow may abort."""

import io
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_delta.core.parquet.compact_protocol import (
    BINARY,
    I8,
    I32,
    I64,
    LIST,
    STRUCT,
    Field,
    Items,
    read_struct,
    struct_bytes,
)
from airflow_delta.core.parquet.foreign_footer import ForeignFooter

ROWS = 6
DECIMALS = [Decimal(row) for row in range(ROWS)]
TABLE = pa.table(
    {
        "long": range(ROWS),
        "int": pa.array(range(ROWS), pa.int32()),
        "double": [row / 2 for row in range(ROWS)],
        "bool": [row % 2 == 0 for row in range(ROWS)],
        "text": [f"text {row}" for row in range(ROWS)],
        "wide": pa.array(DECIMALS, pa.decimal128(30, 2)),
        "narrow": pa.array(DECIMALS, pa.decimal128(9, 2)),
        "fixed": pa.array([b"abcde"] * ROWS, pa.binary(5)),
        "null": pa.array([None] * ROWS, pa.int64()),
        "member": [{"x": row} for row in range(ROWS)],
        "list": [[row, None] for row in range(ROWS)],
    }
)

values = st.builds(Field, st.just(BINARY), st.binary(max_size=20))
counts = st.builds(Field, st.just(I64), st.integers(-(2**63), 2**63 - 1))
histograms = st.builds(
    lambda kind, items: Field(LIST, Items(kind, items)),
    st.sampled_from([I64, I64, I8]),
    st.lists(st.integers(0, 100), max_size=4),
)
statistics = st.fixed_dictionaries(
    {}, optional={1: values, 2: values, 3: counts, 4: counts, 5: st.one_of(values, counts), 6: values}
)
sizes = st.fixed_dictionaries({}, optional={1: counts, 2: histograms, 3: histograms})
descriptions = st.fixed_dictionaries(
    {},
    optional={
        1: st.builds(Field, st.just(I32), st.integers(-1, 9)),
        2: histograms,
        12: st.builds(Field, st.just(STRUCT), statistics),
        16: st.builds(Field, st.just(STRUCT), sizes),
        70_000: counts,
    },
)
places = st.tuples(st.integers(0, 1), st.integers(0, len(TABLE.column_names) - 1))


def written_footer():
    file = io.BytesIO()
    pq.write_table(TABLE, file, row_group_size=ROWS // 2, store_schema=False, store_decimal_as_integer=True)
    content = file.getvalue()
    return content[-8 - int.from_bytes(content[-8:-4], "little") : -8]


FOOTER = written_footer()


def statistics_of(metadata, column):
    found = [metadata.row_group(group).column(column).statistics for group in range(metadata.num_row_groups)]
    return [
        statistics
        and (
            statistics.has_min_max and (statistics.min_raw, statistics.max_raw),
            statistics.has_null_count and statistics.null_count,
        )
        for statistics in found
    ]


ORIGINAL = pq.read_metadata(pa.BufferReader(FOOTER + len(FOOTER).to_bytes(4, "little") + b"PAR1"))


@given(st.dictionaries(places, st.tuples(descriptions, st.booleans()), max_size=3), st.booleans())
@settings(max_examples=400, deadline=None, derandomize=True, database=None)
def ask(edits, is_ordered):
    file = read_struct(FOOTER)
    for (group, column), (edit, with_key) in edits.items():
        chunk = file[4].value.values[group][1].value.values[column]
        chunk[3] = Field(STRUCT, {**chunk[3].value, **edit})
        if with_key and 70_000 in edit:  # encrypted
            chunk[8] = Field(STRUCT, {2: Field(STRUCT, {1: Field(LIST, Items(BINARY, [b"long"]))})})
    if not is_ordered:
        del file[7]
    content = struct_bytes(file)
    try:
        footer = ForeignFooter.read(pa.BufferReader(content + len(content).to_bytes(4, "little") + b"PAR1"))
    except OSError:  # Arrow raises as expected
        return
    for column in set(range(footer.metadata.num_columns)) - footer.unreadable:
        found = statistics_of(footer.metadata, column)
        if is_ordered and column not in {column for _, column in edits}:
            assert found == statistics_of(ORIGINAL, column)


if __name__ == "__main__":
    ask()
