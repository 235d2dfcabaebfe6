"""Strategies for schemas and rows of every type, and the tables that Delta Lake on Spark wrote."""

import datetime as dt
import json
import runpy
from decimal import Decimal
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from hypothesis import strategies as st

from airflow_delta.core.data_files import DataFileWriter, open_data_file
from airflow_delta.core.schema import ArrayType, DecimalType, MapType, PrimitiveType, StructField, StructType, arrow_schema
from tests.golden_tables import TABLES

LOCAL = pafs.LocalFileSystem()

INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
VALUES = {
    **{name: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in INTEGERS.items()},
    "float": st.floats(width=32),
    "double": st.floats(),
    "boolean": st.booleans(),
    # Characters near the tie breakers of truncated bounds, and near the end of the Basic Multilingual Plane.
    "string": st.text(st.sampled_from("ab\x7eé\x7f\ud7ff\uffff\U00010000\U0010ffff"), max_size=80),
    "binary": st.binary(max_size=8),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(dt.UTC)),
    "timestamp_ntz": st.datetimes(),
}


def decimals(kind):
    largest = 10**kind.precision - 1
    return st.integers(-largest, largest).map(
        lambda digits: Decimal((digits < 0, tuple(map(int, str(abs(digits)))), -kind.scale))
    )


primitive_types = st.sampled_from(sorted(VALUES)).map(PrimitiveType)
decimal_types = st.integers(1, 38).flatmap(
    lambda precision: st.builds(DecimalType, st.just(precision), st.integers(0, precision))
)


def struct_types(members):
    return st.lists(members, min_size=1, max_size=3).map(
        lambda types: StructType(tuple(StructField(f"m{index}", data_type) for index, data_type in enumerate(types)))
    )


data_types = st.recursive(
    primitive_types | decimal_types,
    lambda inner: st.builds(ArrayType, inner) | st.builds(MapType, primitive_types, inner) | struct_types(inner),
    max_leaves=4,
)


def values_of(kind, *, nullable=True):
    """A strategy for Python values as Arrow accepts them."""
    match kind:
        case PrimitiveType(name):
            values = VALUES[name]
        case DecimalType():
            values = decimals(kind)
        case ArrayType(element):
            values = st.lists(values_of(element), max_size=3)
        case MapType(key, value):
            values = st.lists(st.tuples(values_of(key, nullable=False), values_of(value)), max_size=3)
        case StructType(fields):
            values = st.fixed_dictionaries({field.name: values_of(field.type) for field in fields})
    return st.none() | values if nullable else values


@st.composite
def rows_of_any_schema(draw, types=data_types, min_size=0):
    """A strategy for a schema and a table of its rows."""
    schema = draw(struct_types(types))
    columns = st.fixed_dictionaries({field.name: values_of(field.type) for field in schema.fields})
    rows = draw(st.lists(columns, min_size=min_size, max_size=12))
    return schema, pa.Table.from_pylist(rows, schema=arrow_schema(schema))


def write_file(path, table, schema, **options):
    """The table as one data file, in two batches."""
    half = table.num_rows // 2
    with DataFileWriter(LOCAL, str(path), schema, **options) as writer:
        for part in (table.slice(0, half), table.slice(half)):
            for batch in part.combine_chunks().to_batches():
                writer.write(batch)
    return writer.close()


def read_file(path, schema, partition_values=None, **options):
    """The whole file as a table."""
    batches = list(open_data_file(LOCAL, str(path), schema, partition_values or {}, **options))
    return pa.Table.from_batches(batches, batches[0].schema if batches else arrow_schema(schema))


@pytest.fixture(scope="session")
def data_files():
    """The helpers of this file."""
    return SimpleNamespace(LOCAL=LOCAL, rows_of_any_schema=rows_of_any_schema, write_file=write_file, read_file=read_file)


@pytest.fixture(scope="session")
def shared_tables():
    return TABLES


@pytest.fixture(scope="session")
def encode_rows(shared_tables):
    """Encodes rows, given the schema's JSON, as the canonical lines in ``expected.json`` of a shared table."""
    canon = SimpleNamespace(**runpy.run_path(str(shared_tables / "canon.py")))
    return lambda rows, schema_json: canon.encode_rows(rows, json.loads(schema_json))
