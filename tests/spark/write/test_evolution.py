"""How a schema evolves: decided on values alone."""

import pytest

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.errors import InvalidTableChangeError, InvalidTableDefinitionError, SchemaMismatchError
from airflow_delta.core.schema import parse_schema, schema_json
from airflow_delta.core.schema.data_types import (
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from airflow_delta.core.table_changes.definition import Definition
from airflow_delta.spark.statement.schema_evolution import evolution, evolved, extended


def struct(**columns):
    return StructType(
        tuple(column if isinstance(column, StructField) else StructField(name, column) for name, column in columns.items())
    )


def grown(table, rows, *, widen=False):
    return evolved(table, rows, widen=widen, table_uri="t")


def test_new_columns_come_last_and_known_ones_stay_as_they_are():
    table = struct(id=StructField("Id", LONG, False, {"comment": "key"}), name=STRING)
    rows = struct(x=StructField("x", DATE, False, {"comment": "c", "delta.generationExpression": "1"}), ID=INTEGER)

    assert grown(table, rows) == StructType((*table.fields, StructField("x", DATE, True, {"comment": "c"})))
    assert grown(table, struct(NAME=STRING)) == table


def test_members_are_added_at_every_depth():
    table = struct(s=struct(a=INTEGER), l=ArrayType(struct(a=INTEGER)), m=MapType(struct(k=STRING), struct(v=STRING)))
    rows = struct(
        s=struct(b=struct(c=DATE)), l=ArrayType(struct(A=INTEGER, b=DATE)), m=MapType(struct(k=STRING, n=LONG), struct(w=DATE))
    )

    assert str(grown(table, rows)) == (
        "struct<s:struct<a:int,b:struct<c:date>>,l:array<struct<a:int,b:date>>,m:map<struct<k:string,n:bigint>,struct<v:string,w:date>>>"
    )


def test_what_does_not_fit_is_listed_all_at_once():
    table = struct(id=INTEGER, s=struct(x=INTEGER, y=DATE), l=ArrayType(INTEGER))
    rows = struct(id=STRING, s=struct(y=ArrayType(DATE)), l=DATE, nothing=VOID, more=LONG)

    with pytest.raises(SchemaMismatchError) as caught:
        grown(table, rows)

    assert [line.partition(":")[0] for line in caught.value.differences] == ["id", "s.y", "l", "nothing"]
    assert extended(table, rows, widen=False).names == ("id", "s", "l", "more")


def test_a_type_gets_wider_only_where_the_table_says_so_and_the_change_is_recorded():
    table = struct(a=SHORT, s=struct(d=DATE), l=ArrayType(DecimalType(5, 1)), f=INTEGER)
    rows = struct(a=LONG, s=struct(d=TIMESTAMP_NTZ), l=ArrayType(DecimalType(9, 2)), f=DOUBLE)

    assert grown(table, rows) == table
    wide = grown(table, rows, widen=True)
    assert str(wide) == "struct<a:bigint,s:struct<d:timestamp_ntz>,l:array<decimal(9,2)>,f:int>"
    assert wide.find("a").metadata == {"delta.typeChanges": [{"toType": "long", "fromType": "short"}]}
    assert wide.find("s").type.find("d").metadata["delta.typeChanges"][0]["fromType"] == "date"
    assert wide.find("l").metadata["delta.typeChanges"][0]["fieldPath"] == "element"
    assert grown(wide, table, widen=True) == wide


def definition(schema, **configuration):
    properties = {key.replace("_", "."): value for key, value in configuration.items()}
    metadata = Metadata(id="t", schema_string=schema_json(schema), configuration=properties)
    return Definition(metadata=metadata, protocol=Protocol(min_reader_version=2, min_writer_version=5))


def test_new_columns_of_a_mapped_table_get_ids_and_physical_names():
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "p"}
    before = definition(
        struct(a=StructField("a", INTEGER, True, mapped)), delta_columnMapping_mode="name", delta_columnMapping_maxColumnId="7"
    )
    after = evolution(before, struct(a=INTEGER, b=struct(c=TIMESTAMP_NTZ)), table_uri="t")

    a, b = parse_schema(after.metadata.schema_string).fields
    assert a.metadata == mapped
    assert b.metadata["delta.columnMapping.id"] == 8
    assert b.type.fields[0].metadata["delta.columnMapping.physicalName"].startswith("col-")
    assert after.metadata.configuration["delta.columnMapping.maxColumnId"] == "9"
    assert "timestampNtz" in after.protocol.writer_features
    assert evolution(before, struct(A=INTEGER), table_uri="t") is before


def test_what_the_table_does_not_allow_is_refused():
    before = definition(struct(a=INTEGER), delta_constraints_small="a < 9", delta_enableTypeWidening="true")

    with pytest.raises(InvalidTableChangeError, match="the constraint small"):
        evolution(before, struct(a=LONG), table_uri="t")
    with pytest.raises(InvalidTableDefinitionError, match="a b"):
        evolution(before, StructType((StructField("a b", LONG),)), table_uri="t")
