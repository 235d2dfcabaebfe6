import uuid

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.parquet.bloom_filter import MOST_FILTER_BYTES, BloomFilter, Probes
from airflow_delta.core.parquet.compact_protocol import I32, STRUCT, Field, read_struct_until, struct_bytes
from airflow_delta.core.parquet.xx_hash import hashes


def written(values, *, ndv, fpp):
    """The filter of a column as Arrow writes it."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": values}), sink, bloom_filter_options={"x": {"ndv": ndv, "fpp": fpp}})
    content = sink.getvalue()
    chunk = pq.read_metadata(pa.BufferReader(content)).row_group(0).column(0)
    start = chunk.bloom_filter_offset
    return content[start : start + chunk.bloom_filter_length].to_pybytes()


def texts(count):
    return pa.array([uuid.uuid4().bytes * 2 for _ in range(count)], pa.binary())


FILTER = written(pa.array([b"a", b"b"]), ndv=2, fpp=0.01)
ANY = Probes.of(hashes(pa.array([b"a", b"b", None, b"c"])))


def header(**changes):
    fields, end = read_struct_until(FILTER[:64])
    return struct_bytes({**fields, **{int(number[1:]): field for number, field in changes.items()}}) + FILTER[end:]


@pytest.mark.parametrize("fpp", [0.1, 0.01, 1e-5])
def test_what_arrow_put_in_is_found_and_little_else(fpp):
    present, absent = texts(5_000), texts(5_000)
    found = BloomFilter.parse(written(present, ndv=5_000, fpp=fpp))
    assert pc.all(found.holds(Probes.of(hashes(present)))).as_py()
    assert pc.sum(found.holds(Probes.of(hashes(absent)))).as_py() <= 5_000 * fpp * 2 + 2


def test_null_is_in_no_filter():
    assert BloomFilter.parse(FILTER).holds(ANY).to_pylist()[:3] == [True, True, False]


def kind(number):
    return Field(STRUCT, {number: Field(STRUCT, {})})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        FILTER[:3],
        FILTER[:-1],
        FILTER[-32:],
        bytes(100),
        header(_1=Field(I32, 0)),
        header(_1=Field(I32, -32)),
        header(_1=Field(I32, 31)),
        header(_1=Field(I32, MOST_FILTER_BYTES + 32)),
        header(_1=Field(STRUCT, {})),
        header(_2=kind(2)),
        header(_3=kind(2)),
        header(_4=kind(2)),
        header(_4=Field(STRUCT, {})),
        FILTER[: len(FILTER) - 32] + bytes(32),
    ],
)
def test_a_filter_that_is_not_as_it_should_be_is_none(content):
    with pytest.raises(ValueError, match=r"Bloom filter|struct|kind|field"):
        BloomFilter.parse(content)


@given(st.integers(0, len(FILTER) - 33), st.integers(0, 255))
def test_a_header_with_a_wrong_byte_is_understood_alike_or_refused(position, byte):
    content = bytearray(FILTER)
    content[position] = byte
    try:
        found = BloomFilter.parse(bytes(content))
    except ValueError:
        return
    assert found.holds(ANY) == BloomFilter.parse(FILTER).holds(ANY)
