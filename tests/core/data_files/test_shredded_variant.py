"""Shredded variants against Spark's own reader of the binary encoding (``VariantVal``)."""

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.data_files.shredded_variant import unshredded
from airflow_delta.core.errors import CorruptDataFileError
from airflow_delta.core.schema import ArrayType, StructField, StructType
from airflow_delta.core.schema.data_types import VARIANT

VariantVal = pytest.importorskip("pyspark.sql.types").VariantVal

NAMES = ["a", "b", "tags", "x", "é"]


def metadata(names=NAMES):
    encoded = [name.encode() for name in names]
    offsets = [sum(map(len, encoded[:count])) for count in range(len(encoded) + 1)]
    return bytes([1, len(encoded), *offsets]) + b"".join(encoded)


def group(typed):
    return pa.struct([("value", pa.binary()), ("typed_value", typed)])


def column(typed, rows):
    """Variants of (value, typed value); None is NULL."""
    kind = pa.struct([("metadata", pa.binary()), *group(typed)])
    return pa.array([row and {"metadata": metadata(), "value": row[0], "typed_value": row[1]} for row in rows], kind)


def read(variants):
    found = (variant and VariantVal(variant["value"], variant["metadata"]) for variant in variants.to_pylist())
    return [variant and json.loads(variant.toJson()) for variant in found]


TEXT = b"\x05x"  # the variant "x"
OBJECT = bytes([2, 2, 1, 4, 0, 2, 4]) + TEXT + TEXT  # the variant {"b": "x", "é": "x"}


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.bool_(), [True, False], [True, False]),
        (pa.int8(), [-128], [-128]),
        (pa.int16(), [-300], [-300]),
        (pa.int32(), [2**31 - 1], [2**31 - 1]),
        (pa.int64(), [-(2**62)], [-(2**62)]),
        (pa.float32(), [1.5], [1.5]),
        (pa.float64(), [-1e300], [-1e300]),
        (pa.decimal128(9, 2), [Decimal("-1.25")], [-1.25]),
        (pa.decimal128(18, 0), [Decimal(10**17)], [10**17]),
        (pa.decimal128(38, 3), [Decimal("-5.125")], [-5.125]),
        (pa.date32(), [dt.date(1969, 12, 31)], ["1969-12-31"]),
        (pa.timestamp("us"), [dt.datetime.fromisoformat("1969-12-31T23:59:59.999999")], ["1969-12-31 23:59:59.999999"]),
        (pa.timestamp("us", "UTC"), [dt.datetime(2020, 1, 2, tzinfo=dt.UTC)], ["2020-01-02 00:00:00+00:00"]),
        (pa.binary(), [b"abc"], ["YWJj"]),
        (pa.string(), ["é", "y" * 63, "z" * 64, ""], ["é", "y" * 63, "z" * 64, ""]),
    ],
    ids=str,
)
def test_a_typed_value_is_encoded(kind, values, expected):
    rows = [(None, value) for value in values]
    assert read(unshredded(column(kind, [*rows, (TEXT, None), None, (None, None)]))) == [*expected, "x", None, None]
    assert read(unshredded(column(kind, [(TEXT, None), *rows])[1:])) == expected


def test_objects_are_put_together_from_typed_and_other_fields():
    members = pa.struct([("a", group(pa.int64())), ("x", group(pa.struct([("b", group(pa.string()))])))])
    nothing = {"value": None, "typed_value": None}
    rows = [
        (None, {"a": {"value": None, "typed_value": 7}, "x": nothing}),
        (OBJECT, {"a": {"value": TEXT, "typed_value": None}, "x": nothing}),
        (None, {"a": nothing, "x": {"value": None, "typed_value": {"b": {"value": None, "typed_value": "deep"}}}}),
        (None, {"a": nothing, "x": nothing}),
        (TEXT, None),
        (None, {"a": {"value": b"\x00", "typed_value": None}, "x": nothing}),
        None,
    ]
    expected = [{"a": 7}, {"a": "x", "b": "x", "é": "x"}, {"x": {"b": "deep"}}, {}, "x", {"a": None}, None]
    assert read(unshredded(column(members, rows))) == expected


def test_arrays_are_put_together_from_their_elements():
    element = group(pa.struct([("a", group(pa.int32()))]))
    one = {"value": None, "typed_value": {"a": {"value": None, "typed_value": 1}}}
    other = {"value": TEXT, "typed_value": None}
    rows = [(TEXT, None), (None, []), None, (None, [one, other]), (None, [other] * 300)]
    variants = column(pa.list_(element), rows)
    assert read(unshredded(variants)) == ["x", [], None, [{"a": 1}, "x"], ["x"] * 300]
    assert read(unshredded(variants[3:])) == [[{"a": 1}, "x"], ["x"] * 300]


def test_a_shredded_column_of_a_file_is_read_as_any_variant_also_inside_a_list(data_files, tmp_path):
    plain = column(pa.int64(), [(None, 5), (TEXT, None), None])
    nested = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), plain)
    pq.write_table(pa.table({"v": plain, "l": nested}), tmp_path / "f")
    schema = StructType((StructField("v", VARIANT), StructField("l", ArrayType(VARIANT))))
    found = data_files.read_file(tmp_path / "f", schema)
    assert read(found["v"]) == [5, "x", None]
    assert [read(pa.array(values, VARIANT_ROWS)) for values in found["l"].to_pylist()] == [[5, "x"], [], [None]]


VARIANT_ROWS = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (pa.struct([("unknown", group(pa.int64()))]), (None, {"unknown": {"value": TEXT, "typed_value": None}})),
        (pa.struct([("a", group(pa.int64()))]), (TEXT, {"a": {"value": None, "typed_value": 1}})),
        (pa.struct([("a", group(pa.int64()))]), (OBJECT[:4], {"a": {"value": None, "typed_value": 1}})),
        (pa.struct([("a", group(pa.int64()))]), (b"", {"a": {"value": None, "typed_value": 1}})),
        (pa.duration("us"), (None, dt.timedelta(1))),
    ],
    ids=str,
)
def test_parts_that_make_no_variant_are_a_typed_error(kind, row, data_files, tmp_path):
    pq.write_table(pa.table({"v": column(kind, [row])}), tmp_path / "f")
    with pytest.raises(CorruptDataFileError, match="shredded variant"):
        data_files.read_file(tmp_path / "f", StructType((StructField("v", VARIANT),)))


def test_garbage_instead_of_a_dictionary_is_a_typed_error():
    kind = pa.struct([("metadata", pa.binary()), ("typed_value", pa.int64())])
    for garbage in (b"", b"\x02", b"\x01\x05", bytes([0xC1, 255, 255, 255, 255])):
        with pytest.raises(pa.ArrowInvalid, match="shredded variant"):
            unshredded(pa.array([{"metadata": garbage, "typed_value": 1}], kind))
