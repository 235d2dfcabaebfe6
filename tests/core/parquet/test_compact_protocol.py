"""Thrift structs are written exactly as they were read, and invalid bytes are refused."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.parquet.compact_protocol import (
    BINARY,
    DOUBLE,
    FALSE,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Field,
    Items,
    read_struct,
    struct_bytes,
)

numbers = st.integers(-(2**63), 2**63 - 1)
truths = st.booleans().map(lambda value: Field(TRUE if value else FALSE, value))
leaves = st.one_of(
    truths,
    st.builds(Field, st.just(I64), numbers),
    st.builds(Field, st.just(BINARY), st.binary(max_size=300)),
    st.builds(Field, st.just(DOUBLE), st.binary(min_size=8, max_size=8)),
    st.builds(Field, st.just(LIST), st.lists(numbers, max_size=20).map(lambda values: Items(I32, values))),
)
structs = st.recursive(
    st.dictionaries(st.integers(1, 300), leaves, max_size=5),
    lambda inner: st.dictionaries(
        st.integers(1, 300),
        st.one_of(
            st.builds(Field, st.just(STRUCT), inner),
            st.builds(Field, st.just(LIST), st.lists(inner, max_size=16).map(lambda values: Items(STRUCT, values))),
        ),
        max_size=3,
    ),
    max_leaves=8,
)


@given(structs)
def test_a_struct_that_was_written_is_read_again(struct):
    assert read_struct(struct_bytes(struct)) == struct


def test_a_footer_of_arrow_is_written_again_byte_for_byte():
    file = io.BytesIO()
    columns = {"i": [1, None, 3], "t": ["a", "b", "c"], "l": [[True], [False, None], []], "s": [{"x": 1.5}] * 3}
    pq.write_table(pa.table(columns), file, row_group_size=2)
    content = file.getvalue()
    footer = content[-8 - int.from_bytes(content[-8:-4], "little") : -8]

    assert struct_bytes(read_struct(footer)) == footer


@given(st.binary(max_size=200))
def test_bytes_that_are_no_struct_are_refused(content):
    try:
        struct = read_struct(content)
    except ValueError:
        return
    assert read_struct(struct_bytes(struct)) == struct


def test_structs_without_end_are_refused():
    with pytest.raises(ValueError, match="too often"):
        read_struct(b"\x1c" * 1000)
    with pytest.raises(ValueError, match="too often"):
        read_struct(b"\x19" * 100_000)
    with pytest.raises(ValueError, match="more than 64 bits"):
        read_struct(b"\x16" + b"\xff" * 100_000)
    with pytest.raises(ValueError, match="does not end"):
        read_struct(b"\x18\xff\xff\xff\xff\x0f")
