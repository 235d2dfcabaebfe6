"""The rules of tables that can be read as Iceberg tables: what breaks them, and what the error says of it."""

import json
from dataclasses import replace

import pytest

from airflow_delta.core.actions import Metadata
from airflow_delta.core.errors import IcebergCompatError
from airflow_delta.core.schema import with_column_mapping
from airflow_delta.core.schema.schema_json import schema_json
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.core.table_features.iceberg_compat import (
    enables_compatibility,
    needs_nested_ids,
    universal_formats,
    with_implied_properties,
)
from airflow_delta.core.table_features.iceberg_rules import (
    check_iceberg_change,
    check_iceberg_compat,
    partition_violations,
    violations,
)
from airflow_delta.core.table_features.protocol import protocol_for

V1, V2, V3 = ("delta.enableIcebergCompatV1", "delta.enableIcebergCompatV2", "delta.enableIcebergCompatV3")
W1, W3 = ("delta.enableIcebergWriterCompatV1", "delta.enableIcebergWriterCompatV3")
MODE, ROWS = "delta.columnMapping.mode", "delta.enableRowTracking"


def table(columns, *on, number_names=False, nested=True, partition_by=(), features=(), **more):
    """Metadata and protocol of a table as a careful writer makes it, with these properties on."""
    schema, last = with_column_mapping(parse_struct(columns), max_id=0, number_names=number_names, nested=nested)
    configuration = with_implied_properties(dict.fromkeys(on, "true") | more) | {"delta.columnMapping.maxColumnId": str(last)}
    metadata = Metadata(id="x", schema_string=schema_json(schema), partition_columns=partition_by, configuration=configuration)
    return metadata, protocol_for(metadata, features)


def found(metadata, protocol):
    return [violation.detail for violation in violations(metadata, protocol)]


@pytest.mark.parametrize(
    ("columns", "properties"),
    [
        ("a tinyint, b smallint, s struct<x: decimal(5, 2), t: timestamp_ntz>, d date", [V1]),
        ("a array<array<int>>, m map<string, struct<x: array<long>>>", [V2]),
        ("a array<int>, v variant, m map<struct<x: int>, binary>", [V3]),
        ("a int, m map<string, array<double>>", [W1]),
        ("a int, m map<string, array<variant>>", [W3]),
    ],
)
def test_a_table_that_keeps_the_rules_has_no_violation(columns, properties):
    assert found(*table(columns, *properties, number_names=True)) == []


@pytest.mark.parametrize(
    ("columns", "on", "reason"),
    [
        ("a array<int>", V1, "a holds values of type array"),
        ("s struct<m: map<int, int>>", V1, "s holds values of type map"),
        ("v variant", V1, None),  # the text only names lists, maps and void
        ("v array<variant>", V2, "v holds values of type variant"),
        ("a tinyint", W1, "a holds values of type tinyint"),
        ("a array<smallint>", W3, "a holds values of type smallint"),
    ],
)
def test_a_column_that_iceberg_does_not_have_is_named_with_its_type(columns, on, reason):
    details = found(*table(columns, on, number_names=True))
    assert details == ([] if reason is None else [reason])


def test_only_one_version_can_be_on():
    details = found(*table("a int", V1, V2))
    assert details == ["delta.enableIcebergCompatV1 and delta.enableIcebergCompatV2 are true"]


def test_columns_must_be_mapped():
    metadata, protocol = table("a int", V1, **{MODE: "none"})
    [violation] = violations(metadata, protocol)
    assert (violation.property, violation.detail) == (V1, "columns are not mapped")
    assert violation.cure == "set delta.columnMapping.mode to name in a statement of its own first"


@pytest.mark.parametrize(
    ("on", "features", "properties", "reason"),
    [
        (V1, ["deletionVectors"], {}, "the table supports deletion vectors"),
        (V2, ["deletionVectors"], {}, None),
        (V2, [], {"delta.enableDeletionVectors": "true"}, "deletion vectors are enabled"),
        (V3, [], {"delta.enableDeletionVectors": "true"}, None),
        (V3, [], {ROWS: "false"}, "row tracking is not enabled"),
        (W1, [], {V2: "false"}, "delta.enableIcebergCompatV2 is not true"),
        (W1, [], {MODE: "name"}, "delta.columnMapping.mode is not id"),
        (W1, ["allowColumnDefaults"], {}, "the table has the feature allowColumnDefaults, which Iceberg's writers do not keep"),
        (W1, ["rowTracking"], {}, "the table has the feature rowTracking, which Iceberg's writers do not keep"),
        (W1, ["changeDataFeed"], {}, None),
        (
            W1,
            [],
            {"delta.enableChangeDataFeed": "true"},
            "the table has the feature changeDataFeed, which Iceberg's writers do not keep",
        ),
        (W3, ["deletionVectors"], {}, None),
    ],
)
def test_other_features_of_the_table_must_go_with_it(on, features, properties, reason):
    details = found(*table("a int", on, number_names=True, features=features, **properties))
    assert details == ([] if reason is None else [reason])


def test_lists_and_maps_need_ids_inside():
    metadata, protocol = table("a array<int>, s struct<m: map<int, int>>", V2, nested=False)
    details = found(metadata, protocol)
    assert details == ["a, or what is inside of it, has no id", "m, or what is inside of it, has no id"]


def test_ids_that_are_given_twice_are_found():
    metadata, protocol = table("a array<int>, b int", V2)
    schema = json.loads(metadata.schema_string)
    schema["fields"][1]["metadata"]["delta.columnMapping.id"] = 2
    details = found(replace(metadata, schema_string=json.dumps(schema)), protocol)
    assert details == ["the ids 2 are given twice"]


@pytest.mark.parametrize(
    ("before", "after", "is_allowed"),
    [
        ("byte", "long", True),
        ("integer", "long", True),
        ("float", "double", True),
        ("decimal(5,2)", "decimal(7,2)", True),
        ("decimal(5,2)", "decimal(7,3)", False),
        ("integer", "double", False),
        ("date", "timestamp_ntz", False),
        (7, {"type": 1}, False),
    ],
)
def test_types_may_only_have_been_widened_as_iceberg_does_it(before, after, is_allowed):
    metadata, protocol = table("a bigint", V1)
    schema = json.loads(metadata.schema_string)
    schema["fields"][0]["metadata"]["delta.typeChanges"] = [{"fromType": before, "toType": after}]
    details = found(replace(metadata, schema_string=json.dumps(schema)), protocol)
    assert details == ([] if is_allowed else [f"the type of a was changed from {before} to {after}, which Iceberg does not do"])


@pytest.mark.parametrize(
    ("sql", "is_literal"),
    [
        *((sql, True) for sql in ("7", "-1.5e3", "'it''s'", "DATE '2020-01-01'", "null", "X'0F'")),
        *((sql, False) for sql in ("current_date()", "1 + 1", "'a' || 'b'", "upper('a')")),
    ],
)
def test_defaults_are_literals_in_version_3(sql, is_literal):
    metadata, protocol = table("a string", V3)
    schema = json.loads(metadata.schema_string)
    schema["fields"][0]["metadata"]["CURRENT_DEFAULT"] = sql
    details = found(replace(metadata, schema_string=json.dumps(schema)), protocol)
    assert details == ([] if is_literal else [f"the default of a ({sql}) is not a literal"])


def test_physical_names_are_numbers_where_writers_of_iceberg_take_part():
    details = found(*table("a int, b int", W1, number_names=False))
    assert details == ["the physical name of a is not col-1"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ((), ("a",), None),
        (("a",), ("a",), None),
        (("a",), ("b",), "the table is partitioned by (a), and would be by (b)"),
        (("a",), (), "the table is partitioned by (a), and would be by ()"),
        (("a", "b"), ("b", "a"), "the table is partitioned by (a, b), and would be by (b, a)"),
    ],
)
def test_the_partition_columns_of_a_partitioned_table_stay(old, new, reason):
    (before, _), (after, _) = (table("a int, b int, c int", V2, partition_by=columns) for columns in (old, new))
    details = [violation.detail for violation in partition_violations(after, before)]
    assert details == ([] if reason is None else [reason])


def test_compatibility_for_writers_comes_and_goes_only_with_the_table():
    plain, _ = table("a int", V2)
    strict, _ = table("a int", W1, number_names=True)
    for before, after, verb in ((plain, strict, "enabled"), (strict, plain, "disabled")):
        with pytest.raises(IcebergCompatError, match=f"it cannot be {verb} on a table that exists") as caught:
            check_iceberg_change("t", after, before)
        assert (caught.value.property, caught.value.cure) == (W1, "set it when the table is created or replaced")
    check_iceberg_change("t", strict, strict)


def test_the_keys_of_maps_stay_where_writers_of_iceberg_take_part():
    before, _ = table("m map<struct<x: int>, struct<y: int>>", W1, number_names=True)
    value = replace(before, schema_string=before.schema_string.replace('"name":"y"', '"name":"z"'))
    key = replace(before, schema_string=before.schema_string.replace('"name":"x"', '"name":"z"'))
    check_iceberg_change("t", value, before)
    with pytest.raises(IcebergCompatError, match="a struct that is a key of m would change"):
        check_iceberg_change("t", key, before)


def test_metadata_of_iceberg_needs_a_version_of_compatibility():
    metadata, protocol = table("a int", **{"delta.universalFormat.enabledFormats": "iceberg"})
    with pytest.raises(IcebergCompatError) as caught:
        check_iceberg_compat("t", metadata, protocol)
    assert caught.value.property == "delta.universalFormat.enabledFormats"
    assert "set delta.enableIcebergCompatV2 to true in the same statement" in str(caught.value)


def test_the_error_names_every_reason_and_remedy_once():
    metadata, protocol = table("a array<int>, b array<int>", V1, features=["deletionVectors"])
    with pytest.raises(IcebergCompatError) as caught:
        check_iceberg_compat("t", metadata, protocol)
    assert len(caught.value.reasons) == 3
    assert caught.value.cure.count("leave the column out") == 1
    assert not caught.value.retryable


def test_a_property_without_its_feature_requires_nothing():
    metadata, protocol = table("a array<int>", V1)
    assert found(metadata, replace(protocol, writer_features=protocol.writer_features - {"icebergCompatV1"})) == []


@pytest.mark.parametrize(
    ("given", "implied"),
    [
        ({}, {}),
        ({V1: "true"}, {MODE: "name"}),
        ({V2: "true", MODE: "id"}, {}),
        ({V3: "TRUE"}, {MODE: "name", ROWS: "true"}),
        ({W1: "true"}, {V2: "true", MODE: "id"}),
        ({W3: "true"}, {V3: "true", MODE: "id", ROWS: "true"}),
    ],
)
def test_what_a_property_needs_is_set_with_it(given, implied):
    assert with_implied_properties(given) == {**given, **implied}


def test_what_properties_say_is_read_in_any_case():
    assert enables_compatibility({"DELTA.enableicebergcompatV2": "True"})
    assert not enables_compatibility({V2: "false", MODE: "name"})
    assert (needs_nested_ids({V1: "true"}), needs_nested_ids({V3: "true"})) == (False, True)
    assert universal_formats({"delta.universalFormat.enabledFormats": " Iceberg,hudi "}) == ("iceberg", "hudi")
