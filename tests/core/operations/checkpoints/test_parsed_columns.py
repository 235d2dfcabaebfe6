"""Typed columns in addition to JSON: checked against checkpoints of Delta-Spark, and read by other engines."""

import json
import math
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.actions import ADD_FILE, Metadata
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.operations.checkpoints import CheckpointKind, write_checkpoint
from airflow_delta.core.operations.checkpoints.parsed_columns import ParsedColumns
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.operation import Operation
from tests.golden_tables import TABLES

WRITE = Operation(name="WRITE")
STRUCT = {"delta.checkpoint.writeStatsAsStruct": "true"}


def field(name, kind):
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


KINDS = {
    "n": "long", "b": "byte", "f": "float", "d": "double", "s": "string", "day": "date", "t": "timestamp",
    "local": "timestamp_ntz", "m": "decimal(20,2)", "flag": "boolean", "bin": "binary",
}  # fmt: skip
INNER = {
    "type": "struct",
    "fields": [
        field("x.y", "integer"),
        field("l", {"type": "array", "elementType": "long", "containsNull": True}),
    ],
}
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            *(field(name, kind) for name, kind in KINDS.items()),
            field("st", INNER),
            field("p", "integer"),
            field("q", "date"),
        ],
    }
)  # fmt: skip


def new_log(configuration, schema=SCHEMA, partition_columns=("p", "q")):
    log = DeltaLog(InMemoryLogStore())
    metadata = Metadata(id="m", schema_string=schema, partition_columns=partition_columns, configuration=configuration)
    log.create_transaction(metadata).commit(operation=WRITE)
    return log


def checkpointed(stats, partitions=None, configuration=None):
    """The ``add`` structs of the checkpoint of a table with a file for each of these statistics."""
    log = new_log({**STRUCT, **(configuration or {})})
    rows = [
        {
            "path": f"f{number}",
            "partition_values": list((partitions[number] if partitions else {"p": "1", "q": None}).items()),
            "size": 1,
            "modification_time": 1,
            "data_change": True,
            "stats": text,
        }
        for number, text in enumerate(stats)
    ]
    log.start_transaction().commit(adds=pa.Table.from_pylist(rows, schema=ADD_FILE), operation=WRITE)
    result = log.checkpoint()
    adds = pq.read_table(log.store.open_input(result.path))["add"].to_pylist()
    return sorted((add for add in adds if add), key=lambda add: int(add["path"][1:]))


# -- what Delta-Spark wrote


def leaves(kind, path=()):
    if pa.types.is_struct(kind):
        for field in kind:
            yield from leaves(field.type, (*path, field.name))
    else:
        yield path, "timestamp" if pa.types.is_timestamp(kind) else str(kind)


def plain(value):
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    if hasattr(value, "tzinfo"):  # theirs are INT96, which has no zone
        return value.replace(tzinfo=None).isoformat(timespec="microseconds")
    return value


def spark_checkpoints():
    """Checkpoints with parsed statistics."""
    for path in sorted(TABLES.glob("*/table/_delta_log/0*.checkpoint.parquet")):
        if any(field.name == "stats_parsed" for field in pq.read_schema(path).field("add").type):
            yield pytest.param(path, id=f"{path.parts[-4]}-{int(path.name[:20])}")


@pytest.mark.parametrize("theirs", list(spark_checkpoints()))
def test_types_and_values_are_those_of_delta_spark(theirs, tmp_path):
    version = int(theirs.name[:20])
    table = tmp_path / "table"
    shutil.copytree(theirs.parents[1], table, ignore=shutil.ignore_patterns("*.crc", "*.checkpoint*", "_last_checkpoint"))
    log = DeltaLog.for_table(str(table))
    snapshot = log.snapshot(version)
    configuration = {**snapshot.metadata.configuration, **STRUCT}
    snapshot.metadata = replace(snapshot.metadata, configuration=configuration)

    ours = table / write_checkpoint(snapshot, now=log.clock(), kind=CheckpointKind.CLASSIC).path

    read = [pq.read_table(path)["add"] for path in (theirs, ours)]
    for name in ("stats_parsed", "partitionValues_parsed"):
        types = [
            dict(leaves(field.type.field(field.type.get_field_index(name)).type))
            if field.type.get_field_index(name) >= 0
            else {}
            for field in read
        ]
        assert types[1] == types[0], name
        values = [{row["path"]: plain(row.get(name)) for row in table.to_pylist() if row} for table in read]
        assert values[1] == values[0], name


# -- our own


def test_every_type_is_parsed_as_it_is_written():
    low = {
        "n": -(2**63), "b": -128, "f": 0.5, "d": 1e-300, "s": 'a"\\é', "day": "0001-01-01", "t": "1969-12-31T23:59:59.999Z",
        "local": "2024-02-29T01:02:03.456", "m": 123456789012345678.91, "st": {"x.y": 1},
    }  # fmt: skip
    text = json.dumps({"numRecords": 3, "minValues": low, "nullCount": {"n": 1, "flag": 2, "st": {"x.y": 0, "l": 3}}})
    text = text.replace("1.2345678901234568e+17", "123456789012345678.91")
    (add,) = checkpointed([text])
    parsed = add["stats_parsed"]
    assert parsed["numRecords"] == 3
    assert {key: str(value) for key, value in parsed["minValues"].items() if key not in {"st", "f", "d"}} == {
        "n": "-9223372036854775808", "b": "-128", "s": 'a"\\é', "day": "0001-01-01", "t": "1969-12-31 23:59:59.999000+00:00",
        "local": "2024-02-29 01:02:03.456000", "m": "123456789012345678.91",
    }  # fmt: skip
    assert (parsed["minValues"]["f"], parsed["minValues"]["d"], parsed["minValues"]["st"]) == (0.5, 1e-300, {"x.y": 1})
    assert parsed["maxValues"] is None
    assert parsed["nullCount"]["st"] == {"x.y": 0, "l": 3}
    assert (parsed["nullCount"]["n"], parsed["nullCount"]["flag"], parsed["nullCount"]["s"]) == (1, 2, None)
    assert "tightBounds" not in parsed
    assert add["stats"] == text
    assert {"flag", "bin"} & parsed["minValues"].keys() == set()


@pytest.mark.parametrize(
    "broken", [None, "", "garbage", "[]", "{", '{"numRecords":1}{"numRecords":2}', "{}\n{}", '{"numRecords":"x"}']
)
def test_statistics_that_cannot_be_read_are_none_and_harm_no_other(broken):
    good = '{"numRecords":7,"minValues":{"n":1}}'
    first, second, third = checkpointed([good, broken, good])
    assert [add["stats_parsed"] and add["stats_parsed"]["numRecords"] for add in (first, second, third)] == [7, None, 7]
    assert second["stats"] == broken


def test_numbers_that_json_cannot_say_are_left_out():
    (add,) = checkpointed(['{"numRecords":1,"minValues":{"d":"NaN","n":5},"maxValues":{"f":"-Infinity","d":"NaN"}}'])
    assert (add["stats_parsed"]["minValues"]["d"], add["stats_parsed"]["minValues"]["n"]) == (None, 5)
    assert not any(
        isinstance(maxValue, float) and math.isnan(maxValue) for maxValue in add["stats_parsed"]["maxValues"].values()
    )


def test_partition_values_are_typed_and_garbage_is_null():
    values = [{"p": "7", "q": "2024-01-02"}, {"p": None, "q": ""}, {"p": "x", "q": "2024-13-01"}, {}]
    adds = checkpointed([None] * 4, values)
    found = [(add["partitionValues_parsed"]["p"], add["partitionValues_parsed"]["q"]) for add in adds]
    assert [(p, str(q) if q else None) for p, q in found] == [(7, "2024-01-02"), (None, None), (None, None), (None, None)]


def test_the_properties_of_the_table_decide_what_is_written():
    def members(**configuration):
        log = new_log({f"delta.checkpoint.{name}": value for name, value in configuration.items()})
        add = pq.read_schema(log.store.open_input(log.checkpoint().path)).field("add").type
        return {"stats", "stats_parsed", "partitionValues_parsed"} & {field.name for field in add}

    assert members() == {"stats"}
    assert members(writeStatsAsJson="false") == {"stats_parsed", "partitionValues_parsed"}  # not lost
    assert members(writeStatsAsJson="false", writeStatsAsStruct="false") == set()
    assert members(writeStatsAsStruct="TRUE") == {"stats", "stats_parsed", "partitionValues_parsed"}
    assert members(writeStatsAsStruct="true", writeStatsAsJson="False") == {"stats_parsed", "partitionValues_parsed"}


def test_only_columns_that_have_statistics_are_there():
    (add,) = checkpointed([None], configuration={"delta.dataSkippingNumIndexedCols": "2"})
    assert add["stats_parsed"] is None
    kind = ParsedColumns.from_snapshot(new_log({**STRUCT, "delta.dataSkippingNumIndexedCols": "2"}).refresh()).statistics
    assert {field.name: [inner.name for inner in field.type] for field in kind if pa.types.is_struct(field.type)} == {
        "minValues": ["n", "b"], "maxValues": ["n", "b"], "nullCount": ["n", "b"],
    }  # fmt: skip


@pytest.mark.parametrize(
    "schema", ['{"type":"struct","fields":[]}', json.dumps({"type": "struct", "fields": [field("flag", "boolean")]})]
)
def test_a_table_without_columns_that_have_bounds_gets_a_checkpoint(schema):
    log = new_log(STRUCT, schema, ())
    log.checkpoint()
    assert DeltaLog(log.store).refresh().version == 0


def test_other_engines_and_we_read_a_table_that_has_nothing_else(real_table, tmp_path, duckdb_connection):
    table = real_table(**STRUCT, **{"delta.checkpoint.writeStatsAsJson": "false"})
    for number, partition in enumerate(["a", None, "é"]):
        table.commit(adds=table.add(f"f{number}.parquet", number, partition))
    table.log.checkpoint()
    copy = tmp_path / "copy"
    shutil.copytree(table.root, copy)
    for path in (copy / "_delta_log").glob("0*"):
        if "checkpoint" not in path.name:
            path.unlink()
    assert sorted(DeltaTable(copy).to_pyarrow_table()["n"].to_pylist()) == [0, 1, 2]
    assert duckdb_connection.sql(f"SELECT n FROM delta_scan('{copy}') WHERE p = 'é' AND n > 1").fetchall() == [(2,)]
    after = DeltaLog.for_table(str(copy)).refresh()
    before = {row["path"]: json.loads(row["stats"]) for row in table.log.refresh().files().to_pylist()}
    assert {row["path"]: json.loads(row["stats"]) for row in after.files().to_pylist()} == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["n", "s", "t", "st", "numRecords"]), inner, max_size=3)
    ),
    max_leaves=5,
)


STATS = st.dictionaries(st.sampled_from(["numRecords", "minValues", "maxValues", "nullCount"]), JSON, max_size=4)


@given(st.lists(st.none() | st.text(max_size=10) | STATS.map(json.dumps), max_size=4))
def test_no_text_whatever_keeps_a_checkpoint_from_being_written(texts):
    columns = PARSED.parsed_statistics(pa.array(texts, pa.string()))
    assert (len(columns), columns.type) == (len(texts), PARSED.statistics)


PARSED = ParsedColumns.from_snapshot(new_log(STRUCT).refresh())
