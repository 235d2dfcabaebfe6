import pytest

from airflow_delta.core.errors import UnsupportedTypeError
from airflow_delta.core.schema import ArrayType, MapType, StructField, StructType
from airflow_delta.core.schema.data_types import INTEGER, VOID
from airflow_delta.core.schema.void_columns import check_storable, holds_void


def columns(*types):
    return StructType(tuple(StructField(f"c{position}", kind) for position, kind in enumerate(types)))


@pytest.mark.parametrize(
    "schema",
    [
        columns(INTEGER, VOID),
        columns(INTEGER, columns(INTEGER, VOID)),
        columns(ArrayType(columns(INTEGER, columns(VOID, INTEGER)))),
        columns(MapType(INTEGER, columns(VOID, INTEGER))),
    ],
    ids=str,
)
def test_void_beside_other_columns_is_left_out_of_files(schema):
    check_storable(schema)
    assert holds_void(schema)


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        (columns(VOID), "struct<c0:void>"),
        (columns(INTEGER, columns(VOID, VOID)), "struct<c0:void,c1:void>"),
        (columns(INTEGER, ArrayType(VOID)), "array<void>"),
        (columns(MapType(INTEGER, VOID)), "map<int,void>"),
        (columns(ArrayType(ArrayType(columns(VOID)))), "struct<c0:void>"),
    ],
)
def test_what_void_alone_makes_up_is_refused_by_its_type(schema, named):
    with pytest.raises(UnsupportedTypeError) as caught:
        check_storable(schema)
    assert caught.value.type == named


def test_other_columns_hold_no_void():
    assert not holds_void(columns(INTEGER, ArrayType(INTEGER), MapType(INTEGER, columns(INTEGER))))
    check_storable(columns())
