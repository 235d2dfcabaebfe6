import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.actions import ADD_FILE, REMOVE_FILE
from airflow_delta.core.errors import CorruptLogError
from airflow_delta.core.log.checkpoint_reader import read_active_files, read_header, read_tombstones
from airflow_delta.core.log.file_names import checkpoint_path
from airflow_delta.core.log.log_segment import find_segment
from airflow_delta.core.log.parsed_statistics import statistics_json
from tests.core.builders import CHECKPOINT, HandmadeLog, add, deletion_vector, metadata, protocol, remove


def checkpoint_of(handmade):
    return handmade.store, find_segment(handmade.store).checkpoint


def test_a_checkpoint_is_read_by_kind():
    store, checkpoint = checkpoint_of(
        HandmadeLog().checkpoint(
            3,
            protocol(3, 7, readerFeatures=["timestampNtz"], writerFeatures=["timestampNtz", "appendOnly"]),
            metadata(None, ("p",), a="b"),
            {"txn": {"appId": "x", "version": 2}},
            {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
            {"domainMetadata": {"domain": "gone", "configuration": "{}", "removed": True}},
            add("p=1/x", partitionValues={"p": "1"}, tags={"k": "v"}, stats="{}", deletionVector=deletion_vector("v", 1)),
            remove("y", deletionTimestamp=7),
        )
    )
    header = read_header(store, checkpoint)
    assert header.protocol.writer_features == {"timestampNtz", "appendOnly"}
    assert (header.metadata.partition_columns, header.metadata.configuration) == (("p",), {"a": "b"})
    assert header.transactions["x"].version == 2
    assert list(header.domains) == ["d"]
    files = read_active_files(store, checkpoint)
    assert files.schema == ADD_FILE
    assert files.select(["path", "partition_values", "tags", "stats"]).to_pylist() == [
        {"path": "p=1/x", "partition_values": [("p", "1")], "tags": [("k", "v")], "stats": "{}"}
    ]
    assert files["deletion_vector"].to_pylist()[0]["path_or_inline_dv"] == "v"
    removed = read_tombstones(store, checkpoint)
    assert removed.schema == REMOVE_FILE
    assert removed.select(["path", "deletion_timestamp"]).to_pylist() == [{"path": "y", "deletion_timestamp": 7}]


def test_any_column_may_be_missing():
    schema = pa.schema({"add": pa.struct({"path": pa.string()}), "unknown": pa.int64()})
    store, checkpoint = checkpoint_of(HandmadeLog().checkpoint(1, {"add": {"path": "x"}}, {"unknown": 3}, schema=schema))
    files = read_active_files(store, checkpoint)
    assert files.to_pylist()[0] == {
        **dict.fromkeys(ADD_FILE.names),
        "path": "x",
        "partition_values": [],
        "size": 0,
        "modification_time": 0,
        "data_change": True,
    }
    assert len(read_tombstones(store, checkpoint)) == 0


def test_a_checkpoint_without_any_known_column_holds_no_files():
    store, checkpoint = checkpoint_of(HandmadeLog().checkpoint(1, {"unknown": 3}, schema=pa.schema({"unknown": pa.int64()})))
    assert len(read_active_files(store, checkpoint)) == 0


@pytest.mark.parametrize("actions", [[protocol()], [metadata()], [protocol(), metadata(), protocol()]])
def test_a_checkpoint_without_just_one_protocol_and_one_metadata_is_none(actions):
    handmade = HandmadeLog().create(add("a")).commit(add("b")).checkpoint(1, *actions, add("lie"))
    assert handmade.paths() == ["a", "b"]
    with pytest.raises(CorruptLogError, match="actions") as caught:
        handmade.remove_commits(0, 1).paths()
    assert caught.value.file == checkpoint_path(1)


def test_the_parts_of_a_checkpoint_are_one():
    handmade = HandmadeLog()
    for part, actions in enumerate(([add("a")], [protocol(), add("b")], [metadata(), remove("c")]), 1):
        handmade.checkpoint(1, *actions, path=f"_delta_log/{1:020d}.checkpoint.{part:010d}.{3:010d}.parquet")
    store, checkpoint = checkpoint_of(handmade)
    assert read_active_files(store, checkpoint)["path"].to_pylist() == ["a", "b"]
    assert read_tombstones(store, checkpoint)["path"].to_pylist() == ["c"]
    header = read_header(store, checkpoint)
    assert header.protocol
    assert header.metadata


@pytest.mark.parametrize("damage", [lambda content: content[:-20], lambda _: b"no parquet", lambda content: content[40:]])
def test_a_damaged_checkpoint_is_a_corrupt_log_that_names_the_file(damage):
    handmade = HandmadeLog().checkpoint(1, protocol(), metadata(), add("a"))
    handmade.store.write(checkpoint_path(1), damage(handmade.store.read(checkpoint_path(1))))
    store, checkpoint = checkpoint_of(handmade)
    for read in (read_header, read_active_files, read_tombstones):
        with pytest.raises(CorruptLogError) as caught:
            read(store, checkpoint)
        assert caught.value.file == checkpoint_path(1)


def test_an_add_without_path_is_a_corrupt_log():
    store, checkpoint = checkpoint_of(HandmadeLog().checkpoint(1, {"add": {"size": 1}}))
    with pytest.raises(CorruptLogError):
        read_active_files(store, checkpoint)


PARSED = pa.struct(
    {
        "numRecords": pa.int64(),
        "minValues": pa.struct({"id": pa.int64(), "ts": pa.timestamp("us", "UTC"), 'q"': pa.string()}),
        "nullCount": pa.struct({"id": pa.int64()}),
    }
)


def test_statistics_that_are_only_there_as_columns_become_json_again():
    fields = [*(field for field in CHECKPOINT.field("add").type), pa.field("stats_parsed", PARSED)]
    schema = pa.schema([pa.field("add", pa.struct(fields)) if field.name == "add" else field for field in CHECKPOINT])
    parsed = {"numRecords": 2, "minValues": {"id": None, "ts": dt.datetime(2020, 1, 2, tzinfo=dt.UTC), 'q"': "a\n"}}
    handmade = HandmadeLog().checkpoint(
        1,
        protocol(),
        add("a", stats_parsed=parsed),
        add("b", stats='{"numRecords":7}', stats_parsed=parsed),
        remove("r"),
        add("c"),
        add("d", stats_parsed={"numRecords": None, "minValues": None, "nullCount": {"id": 0}}),
        schema=schema,
    )
    stats = read_active_files(*checkpoint_of(handmade))["stats"].to_pylist()
    assert [text and json.loads(text) for text in stats] == [
        {"numRecords": 2, "minValues": {"ts": "2020-01-02T00:00:00.000Z", 'q"': "a\n"}},
        {"numRecords": 7},
        None,
        {"nullCount": {"id": 0}},
    ]


@pytest.mark.parametrize("second", [{"numRecords": 4}, None])
def test_numbers_of_records_come_from_parsed_statistics_where_all_are_there(second):
    """The JSON statistics differ, which shows which of the two were read."""
    fields = [*(field for field in CHECKPOINT.field("add").type), pa.field("stats_parsed", PARSED)]
    schema = pa.schema([pa.field("add", pa.struct(fields)) if field.name == "add" else field for field in CHECKPOINT])
    texts = [{"stats": '{"numRecords":7}', "stats_parsed": {"numRecords": 3}}, {"stats": None, "stats_parsed": second}]
    actions = [add(name, **text) for name, text in zip("ab", texts, strict=True)]
    store, checkpoint = checkpoint_of(HandmadeLog().checkpoint(1, protocol(), *actions, remove("r"), schema=schema))
    files = read_active_files(store, checkpoint, ["num_records", "path", "stats"])
    assert files.column_names == ["num_records", "path", "stats"]
    assert files["num_records"].to_pylist() == ([3, 4] if second else [7, None])
    assert read_active_files(store, checkpoint, ["num_records"])["num_records"].equals(files["num_records"])


def test_int96_times_of_parsed_statistics_are_instants(tmp_path):
    """INT96, Spark's default, does not record whether its times are instants, but is only used for instants."""
    parsed = pa.array([{"minValues": {"ts": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)}}])  # noqa: DTZ001
    table = pa.table({"add": pa.StructArray.from_arrays([pa.array(["x"]), parsed], ["path", "stats_parsed"])})
    path = tmp_path / checkpoint_path(1)
    path.parent.mkdir()
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    handmade = HandmadeLog()
    handmade.store.write(checkpoint_path(1), path.read_bytes())
    stats = read_active_files(*checkpoint_of(handmade))["stats"].to_pylist()
    assert stats == ['{"minValues":{"ts":"1969-12-31T23:59:59.999Z"}}']


@pytest.mark.parametrize(
    ("values", "kind", "texts"),
    [
        ([1, None, -(2**63)], pa.int64(), ["1", None, str(-(2**63))]),
        (
            [1.5, float("nan"), float("inf"), float("-inf"), 1e300],
            pa.float64(),
            ["1.5", '"NaN"', '"Infinity"', '"-Infinity"', None],
        ),
        ([Decimal("1.20"), Decimal("-0.01")], pa.decimal128(38, 2), ["1.20", "-0.01"]),
        ([dt.date(2020, 2, 3)], pa.date32(), ['"2020-02-03"']),
        ([True, False], pa.bool_(), ["true", "false"]),
        (['a"b\\c\n\t\x01ü'], pa.string(), ['"a\\"b\\\\c\\n\\t\\u0001ü"']),
        ([dt.datetime(2020, 1, 2, 3, 4, 5, 678_999)], pa.timestamp("us"), ['"2020-01-02T03:04:05.678"']),  # noqa: DTZ001
    ],
)
def test_each_type_has_the_json_that_delta_writes(values, kind, texts):
    parsed = pa.StructArray.from_arrays([pa.array(values, kind)], ["v"])
    for text, value, expected in zip(statistics_json(parsed).to_pylist(), values, texts, strict=True):
        assert json.loads(text) == ({} if value is None else {"v": json.loads(expected or repr(value))})
        if expected:
            assert text == f'{{"v":{expected}}}'


def test_types_without_json_are_left_out():
    parsed = pa.array([{"b": b"x", "l": [1], "n": 1}])
    assert statistics_json(parsed).to_pylist() == ['{"n":1}']


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_of_years_that_have_no_text_are_left_out(zone):
    """Arrow formats the year 67536 as 2000: as a maximum, that would hide rows."""
    microseconds = pa.array([2_069_063_049_600_000_000, -(2**63), 2**63 - 1], pa.int64())
    parsed = pa.StructArray.from_arrays([microseconds.cast(pa.timestamp("us", zone))], ["v"])
    assert statistics_json(parsed).to_pylist() == ["{}"] * 3
    bounds = pa.array([dt.datetime.min, dt.datetime.max]).cast(pa.timestamp("us", zone))  # noqa: DTZ901
    texts = statistics_json(pa.StructArray.from_arrays([bounds], ["v"])).to_pylist()
    assert [json.loads(text)["v"].rstrip("Z") for text in texts] == ["0001-01-01T00:00:00.000", "9999-12-31T23:59:59.999"]
