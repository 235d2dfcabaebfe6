"""Statistics that Delta Lake on Spark wrote equal those that we compute from its files."""

import datetime as dt
import json
from decimal import Decimal
from types import SimpleNamespace
from urllib.parse import unquote

import pyarrow as pa
import pytest

from airflow_delta.core.data_files import StatisticsSelection, describe_file
from airflow_delta.core.errors import UnsupportedTypeError
from airflow_delta.core.schema import ArrayType, MapType, PrimitiveType, arrow_schema, parse_schema

FLOATS = (PrimitiveType("float"), PrimitiveType("double"))
TIMES = (PrimitiveType("timestamp"), PrimitiveType("timestamp_ntz"))


@pytest.fixture(scope="session")
def spark_files(shared_tables):
    """Every data file in the JSON commits that this package can read, with the schema and properties of its commit."""
    return [file for table in sorted(shared_tables.glob("*/table")) for file in files_of(table)]


def files_of(table):
    metadata = {}
    for commit in sorted((table / "_delta_log").glob("0*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        metadata = next((action["metaData"] for action in actions if "metaData" in action), metadata)
        for add in (action["add"] for action in actions if "add" in action):
            path = table / unquote(add["path"])
            if path.exists() and "delta.columnMapping.mode" not in metadata["configuration"]:
                yield from readable(path, add, metadata)


def readable(path, add, metadata):
    schema = parse_schema(metadata["schemaString"])
    try:
        arrow_schema(schema)
    except UnsupportedTypeError:  # variant
        return
    yield SimpleNamespace(
        path=path,
        add=add,
        schema=schema,
        stored=schema.without(tuple(metadata["partitionColumns"])),
        selection=StatisticsSelection.from_properties(metadata["configuration"]),
    )


def leaves_of(file, stats):
    """Path, type, bounds and NULL count of each selected leaf; None for missing members."""
    document = json.loads(stats, parse_float=Decimal)
    for path, kind in file.selection.leaves(file.stored):
        yield path, kind, *(get(document[key], path) for key in ("minValues", "maxValues", "nullCount"))


def get(tree, path):
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def test_footer_statistics_equal_those_of_delta_lake_where_a_footer_can_tell(spark_files, data_files):
    compared = 0
    for file in (spark_file for spark_file in spark_files if spark_file.add.get("stats")):
        found = describe_file(data_files.LOCAL, str(file.path), file.stored, file.selection)

        assert found.size == file.add["size"]
        assert found.num_records == json.loads(file.add["stats"])["numRecords"]
        for ours, theirs in zip(leaves_of(file, found.stats), leaves_of(file, file.add["stats"]), strict=True):
            check(ours, theirs, f"{file.path} {ours[0]}", from_footer=True)
            compared += ours[2] is not None
    assert compared > 500


def test_rewritten_files_have_the_rows_and_the_statistics_of_delta_lake(spark_files, data_files, tmp_path):
    compared = 0
    for number, file in enumerate(spark_file for spark_file in spark_files if spark_file.add.get("stats")):
        rows = data_files.read_file(file.path, file.stored)
        path = tmp_path / f"{number}.parquet"
        written = data_files.write_file(path, rows, file.stored, selection=file.selection)

        assert repr(data_files.read_file(path, file.stored).to_pylist()) == repr(rows.to_pylist())
        assert written.num_records == json.loads(file.add["stats"])["numRecords"]
        for ours, theirs in zip(leaves_of(file, written.stats), leaves_of(file, file.add["stats"]), strict=True):
            check(ours, theirs, f"{file.path} {ours[0]}", from_footer=False)
            compared += ours[2] is not None
    assert compared > 500


def check(ours, theirs, where, *, from_footer):
    _, kind, low, high, nulls = ours
    _, _, their_low, their_high, their_nulls = theirs
    may_be_silent = from_footer and (
        isinstance(kind, ArrayType | MapType) or their_low is None
    )  # lists; columns not in the file
    assert nulls == their_nulls or (nulls is None and may_be_silent), where
    if kind in FLOATS and any(isinstance(bound, str) for bound in (their_low, their_high)):
        assert low in (None, their_low), where  # NaN and the infinities: left out
        assert high in (None, their_high), where
    elif kind in TIMES and low is None:
        assert from_footer or their_low is None, where  # INT96: a footer has none
    elif kind in TIMES:
        assert low == their_low, where
        late = dt.datetime.fromisoformat(high) - dt.datetime.fromisoformat(their_high)
        assert late in (dt.timedelta(0), dt.timedelta(milliseconds=1)), where
    else:
        assert (low, high) == (their_low, their_high), where


@pytest.mark.parametrize(
    "name",
    [
        "plain",
        "nested",
        "scalar_types",
        "timestamp_ntz",
        "type_widening",
        "partitioned_all_types",
        "partitioned_special",
        "schema_evolution",
        "converted_parquet",
        "cdf",
        "row_tracking",
        "generated_columns",
    ],
)
def test_the_files_of_a_table_are_read_as_the_rows_that_spark_reads(name, shared_tables, encode_rows, data_files):
    expected = json.loads((shared_tables / name / "expected.json").read_text())
    last = expected["versions"][str(expected["latest_version"])]
    live, schema_text = live_files(shared_tables / name / "table")
    schema = parse_schema(schema_text)

    tables = [data_files.read_file(path, schema, add["partitionValues"]) for path, add in live.items()]

    rows = [list(row.values()) for row in pa.concat_tables(tables).to_pylist()]
    assert encode_rows(rows, schema_text) == sorted(
        json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in last["rows"]
    )


def live_files(table):
    live, schema = {}, ""
    for commit in sorted((table / "_delta_log").glob("0*.json")):
        for action in map(json.loads, commit.read_text().splitlines()):
            if "add" in action:
                live[table / unquote(action["add"]["path"])] = action["add"]
            elif "remove" in action:
                live.pop(table / unquote(action["remove"]["path"]), None)
            elif "metaData" in action:
                schema = action["metaData"]["schemaString"]
    return live, schema
