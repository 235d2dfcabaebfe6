"""Statistics that contradict the rows, or each other, skip no file."""

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.predicate import ALL, MAYBE, NO, evaluate_files, parse_predicate
from airflow_delta.core.schema import parse_schema
from tests.core.builders import schema_string

DATA = Path(__file__).parents[2] / "data"
CONDITIONS = {
    "value = 5": [1, 2],
    "value IN (5, 9)": [1, 2],
    "value > 4": [1, 2, 3, 5, 6],
    "NOT value > 6": [1, 2, 3],
    "value <=> 5": [1, 2],
    "value IS NULL": [4],
    "value IS NOT NULL": [1, 2, 3, 5, 6],
    "item = 'x'": [1, 2],
    "item LIKE 'x%'": [1, 2],
    "item IS NULL": [4],
    "item IS NOT NULL": [1, 2, 3, 5, 6],
    "key IS NULL": [4],
    "key IS NOT NULL": [1, 2, 3, 5, 6],
    "key": [1, 2, 3],
    "`list` IS NULL": [5, 6],
    "`list` IS NOT NULL": [1, 2, 3, 4],
    "`map` IS NULL": [5, 6],
    "`map` IS NOT NULL": [1, 2, 3, 4],
}


@pytest.fixture(params=sorted(path.name for path in DATA.glob("deltalake-*")))
def table(request):
    """A table of an old deltalake; see tests/data/make_tables_of_old_deltalake.py."""
    return DeltaLog.for_table(str(DATA / request.param)).snapshot()


@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_file_of_an_old_deltalake_is_skipped_for_counts_of_elements(table, condition):
    files = table.files(where=condition)["path"].to_pylist()
    assert {path for path, ids in ids_by_file(table).items() if ids & set(CONDITIONS[condition])} <= set(files)


def ids_by_file(snapshot):
    """The ids in each file, which no statistics of this release get wrong."""
    stats = {file["path"]: json.loads(file["stats"]) for file in snapshot.files(columns=["path", "stats"]).to_pylist()}
    return {path: {text["minValues"]["id"], text["maxValues"]["id"]} for path, text in stats.items()}


def verdict(condition, stats, schema):
    schema = parse_schema(schema)
    files = pa.table(
        {
            "partition_values": pa.array([[]], pa.map_(pa.string(), pa.string())),
            "stats": pa.array([json.dumps(stats)], pa.string()),
        }
    )
    return evaluate_files(parse_predicate(condition, schema, "t"), files, schema, ())[0].as_py()


@pytest.mark.parametrize("condition", ["v = 5", "v IS NOT NULL", "v > 4", "v <=> 5"])
def test_a_column_with_bounds_is_not_all_null(condition):
    stats = {"numRecords": 2, "minValues": {"v": 5}, "maxValues": {"v": 5}, "nullCount": {"v": 2}}
    assert verdict(condition, stats, schema_string(v="long")) == MAYBE
    assert verdict(condition, {**stats, "minValues": {}, "maxValues": {}}, schema_string(v="long")) == NO


@pytest.mark.parametrize("condition", ["v = 4", "v < 4", "v > 4"])
def test_a_minimum_above_the_maximum_bounds_nothing(condition):
    stats = {"numRecords": 2, "minValues": {"v": 5}, "maxValues": {"v": 3}, "nullCount": {"v": 0}}
    assert verdict(condition, stats, schema_string(v="long")) == MAYBE


@pytest.mark.parametrize("kind", ["array", "map"])
def test_nulls_of_lists_and_maps_are_not_known_from_their_count(kind):
    element = {"elementType": "long", "containsNull": True} if kind == "array" else {}
    entries = {"keyType": "string", "valueType": "long", "valueContainsNull": True} if kind == "map" else {}
    schema = schema_string(v={"type": kind, **element, **entries}, value="long")
    for count in (0, 2):
        stats = {"numRecords": 2, "nullCount": {"v": count, "value": count}}
        for condition in ("v IS NULL", "v IS NOT NULL", "value IS NULL", "value IS NOT NULL"):
            assert verdict(condition, stats, schema) == MAYBE


def test_nulls_of_a_column_value_are_known_where_no_column_has_elements():
    stats = {"numRecords": 2, "minValues": {"value": 5}, "maxValues": {"value": 5}, "nullCount": {"value": 0}}
    assert verdict("value = 5", stats, schema_string(value="long")) == ALL


@pytest.mark.parametrize("value", [10**19, 10**30, -(10**19), -(10**30), 2**63, -(2**63) - 1])
def test_no_file_is_skipped_for_bounds_of_decimals_that_deltalake_cut_to_64_bits(tmp_path, value):
    write_deltalake(tmp_path, pa.table({"n": pa.array([Decimal(value)], pa.decimal128(38, 0))}))
    snapshot = DeltaLog.for_table(str(tmp_path)).snapshot()
    for condition in (f"n = {value}", f"n >= {value}", f"n <= {value}", f"n <=> {value}", "n <> 5", "n IS NOT NULL"):
        assert len(snapshot.files(where=condition)) == 1, condition
