"""A directory of Parquet files becomes a table for every reader, or an error lists everything that does not fit."""

import datetime as dt
import json
import shutil
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidTablePropertyError, NotConvertibleError
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.operations.convert import ConvertResult
from airflow_delta.core.operations.parquet_schema import footer_schema, merged_schema
from airflow_delta.core.schema import ArrayType, MapType, StructField, StructType
from airflow_delta.core.schema.data_types import BYTE, INTEGER, LONG, SHORT, STRING, TIMESTAMP, TIMESTAMP_NTZ


def write(root, path, **options):
    """A file of the columns in ``options``; a list is a column."""
    target = Path(root) / path
    target.parent.mkdir(parents=True, exist_ok=True)
    columns = {name: value for name, value in options.items() if isinstance(value, list | pa.Array)}
    pq.write_table(pa.table(columns), target, **{name: value for name, value in options.items() if name not in columns})
    return target


def rows(root):
    """The rows as deltalake reads them; checks that our reader reads the same."""
    theirs = DeltaTable(root).to_pyarrow_table()
    ours = DeltaLog.for_table(str(root)).snapshot().to_arrow(theirs.column_names).read_all()
    theirs, ours = (sorted(table.to_pylist(), key=str) for table in (theirs, ours))
    assert ours == theirs
    return theirs


def actions(root, version=0):
    lines = (Path(root) / commit_path(version)).read_text().splitlines()
    return [json.loads(line) for line in lines]


# -- the table


def test_files_become_a_table_with_statistics_and_delta_s_history(tmp_path):
    for number in range(3):
        write(tmp_path, f"deep/{number} é.parquet", n=[number, None], s=["x", "y"])
    for hidden in ("_SUCCESS", ".part.crc", "_temporary/0/f.parquet", ".hidden/f.parquet", "deep/_metadata"):
        write(tmp_path, hidden, n=[9])

    result = DeltaLog.convert(str(tmp_path), origin=Origin(job={"jobName": "adopt"}))

    assert result == ConvertResult(version=0, files=3)
    assert sorted(row["n"] for row in rows(tmp_path) if row["n"] is not None) == [0, 1, 2]
    info = DeltaLog.for_table(str(tmp_path)).history()[0].commit_info
    assert (info.operation, info.operation_metrics) == ("CONVERT", {"numConvertedFiles": "3"})
    assert info.operation_parameters == {"numFiles": 3, "partitionedBy": "[]", "collectStats": True, "sourceFormat": "parquet"}
    stats = json.loads(DeltaLog.for_table(str(tmp_path)).snapshot().files(where="n = 2")["stats"][0].as_py())
    assert stats == {
        "numRecords": 2,
        "minValues": {"n": 2, "s": "x"},
        "maxValues": {"n": 2, "s": "y"},
        "nullCount": {"n": 1, "s": 0},
    }


def test_the_table_goes_on_as_any_other(tmp_path):
    write(tmp_path, "f.parquet", n=[1])
    DeltaLog.convert(str(tmp_path), properties={"delta.appendOnly": "true", "user.key": "x"})
    metadata = DeltaLog.for_table(str(tmp_path)).snapshot().metadata
    assert metadata.configuration == {"delta.appendOnly": "true", "user.key": "x"}
    assert DeltaLog.convert(str(tmp_path)) == ConvertResult(version=0, files=0, converted=False)
    with pytest.raises(InvalidTablePropertyError):
        DeltaLog.convert(
            str(tmp_path / "other" if write(tmp_path, "other/f.parquet", n=[1]) else ""), properties={"delta.x": "1"}
        )


def test_without_statistics_none_are_taken(tmp_path):
    write(tmp_path, "f.parquet", n=[1])
    DeltaLog.convert(str(tmp_path), statistics=False)
    assert DeltaLog.for_table(str(tmp_path)).snapshot().files()["stats"].to_pylist() == [None]
    assert rows(tmp_path) == [{"n": 1}]


def test_a_conversion_makes_what_sparks_makes(golden_table):
    root = golden_table("converted_parquet")
    sparks = actions(root)
    shutil.rmtree(root / "_delta_log")
    shutil.rmtree(root / "p=p 9")
    DeltaLog.convert(str(root), partition_schema={"p": "string", "q": "int"})
    ours = actions(root)

    def adds(found):
        plain = [
            {**action["add"], "modificationTime": 0, "stats": json.loads(action["add"]["stats"])}
            for action in found
            if "add" in action
        ]
        return sorted(plain, key=lambda add: add["path"])

    def only(found, key):
        return next(action[key] for action in found if key in action)

    assert adds(ours) == adds(sparks)
    assert only(ours, "protocol") == only(sparks, "protocol")
    for key in ("schemaString", "partitionColumns", "configuration", "format"):
        assert only(ours, "metaData")[key] == only(sparks, "metaData")[key]
    for key in ("operation", "operationParameters", "operationMetrics"):
        assert only(ours, "commitInfo")[key] == only(sparks, "commitInfo")[key]
    assert len(rows(root)) == 12


# -- partitions


@pytest.mark.parametrize(
    ("kind", "directory", "logged", "value"),
    [
        ("string", "a b", "a b", "a b"), ("string", "a%2Fb%3D%25", "a/b=%", "a/b=%"), ("string", "é😀", "é😀", "é😀"),
        ("string", "__HIVE_DEFAULT_PARTITION__", None, None), ("string", "", None, None), ("int", "007", "007", 7),
        ("string", "caf%C3%A9%20%E6%97%A5", "café 日", "café 日"),  # as Arrow, Polars and DuckDB escape
        ("string", "%E9%2F", "é/", "é/"),
        ("bigint", "-5", "-5", -5), ("boolean", "true", "true", True),
        ("date", "2020-02-29", "2020-02-29", dt.date(2020, 2, 29)),
        ("DECIMAL(5, 2)", "1.50", "1.50", Decimal("1.50")),
        ("timestamp_ntz", "2020-01-01 01%3A02%3A03", "2020-01-01 01:02:03", dt.datetime(2020, 1, 1, 1, 2, 3)),  # noqa: DTZ001
    ],
)  # fmt: skip
def test_a_directory_names_a_value(tmp_path, kind, directory, logged, value):
    write(tmp_path, f"p={directory}/f.parquet", n=[1])
    DeltaLog.convert(str(tmp_path), partition_schema={"p": kind})
    assert [action["add"]["partitionValues"] for action in actions(tmp_path) if "add" in action] == [{"p": logged}]
    assert rows(tmp_path) == [{"n": 1, "p": value}]


@pytest.mark.parametrize(
    ("kind", "directory", "logged", "value"),
    [
        ("int", " 7", "7", 7), ("boolean", "yes", "true", True), ("boolean", "TRUE", "TRUE", True),
        ("decimal(5,2)", "1.5", "1.50", Decimal("1.50")), ("decimal(5,2)", "-7", "-7.00", Decimal("-7.00")),
        ("date", "2020-1-2", "2020-01-02", dt.date(2020, 1, 2)),
        ("date", "2020-01-02 00%3A00%3A00", "2020-01-02", dt.date(2020, 1, 2)),
        ("timestamp", "2020-01-02", "2020-01-02T00:00:00.000000Z", dt.datetime(2020, 1, 2, tzinfo=dt.UTC)),
        ("timestamp", "2020-01-02T03%3A04%3A05.5", "2020-01-02T03:04:05.500000Z",
         dt.datetime(2020, 1, 2, 3, 4, 5, 500_000, tzinfo=dt.UTC)),
        ("timestamp", "2020-01-02T03%3A04%3A05+02%3A00", "2020-01-02T01:04:05.000000Z",
         dt.datetime(2020, 1, 2, 1, 4, 5, tzinfo=dt.UTC)),
        ("timestamp_ntz", "2020-01-02T03%3A04", "2020-01-02 03:04:00", dt.datetime(2020, 1, 2, 3, 4)),  # noqa: DTZ001
    ],
)  # fmt: skip
def test_a_value_that_only_some_readers_would_take_is_logged_as_the_protocol_spells_it(
    tmp_path, kind, directory, logged, value
):
    write(tmp_path, f"p={directory}/f.parquet", n=[1])
    DeltaLog.convert(str(tmp_path), partition_schema={"p": kind})
    assert [action["add"]["partitionValues"] for action in actions(tmp_path) if "add" in action] == [{"p": logged}]
    assert rows(tmp_path) == [{"n": 1, "p": value}]


@pytest.mark.parametrize(
    ("time_zone", "directory", "logged"),
    [
        ("UTC", "2024-07-01 12%3A00%3A00", "2024-07-01T12:00:00.000000Z"),
        ("America/New_York", "2024-07-01 12%3A00%3A00", "2024-07-01T16:00:00.000000Z"),
        ("America/New_York", "2024-07-01", "2024-07-01T04:00:00.000000Z"),
        ("America/New_York", " 2024-07-01 12%3A00%3A00.25 ", "2024-07-01T16:00:00.250000Z"),
        ("America/New_York", "2024-07-01T12%3A00%3A00Z", "2024-07-01T12:00:00.000000Z"),
        ("America/New_York", "2024-07-01 12%3A00%3A00+02%3A00", "2024-07-01T10:00:00.000000Z"),
        ("America/New_York", "2024-03-10 02%3A30%3A00", "2024-03-10T07:30:00.000000Z"),  # skipped: 03:30 in summer
        ("America/New_York", "2024-11-03 01%3A30%3A00", "2024-11-03T05:30:00.000000Z"),  # twice: the one in summer
        ("America/New_York", "9999-12-31 23%3A59%3A59", "9999-12-31T23:59:59.000000-05:00"),
        ("Europe/Berlin", "0001-01-01 00%3A00%3A00", "0001-01-01T00:00:32.000000+00:54"),
        ("America/New_York", "__HIVE_DEFAULT_PARTITION__", None),
    ],
)
def test_a_timestamp_without_a_zone_is_an_instant_of_the_given_zone(tmp_path, time_zone, directory, logged):
    path = f"p={directory}/f.parquet"
    write(tmp_path, path, n=[1])
    DeltaLog.convert(str(tmp_path), partition_schema={"p": "timestamp"}, time_zone=time_zone)
    (add,) = (action["add"] for action in actions(tmp_path) if "add" in action)
    assert (add["partitionValues"], unquote(add["path"])) == ({"p": logged}, path)
    assert DeltaLog.for_table(str(tmp_path)).snapshot().to_arrow().read_all().num_rows == 1


@pytest.mark.parametrize("kind", ["timestamp_ntz", "string"])
def test_values_that_are_no_instants_stay_as_they_are(tmp_path, kind):
    write(tmp_path, "p=2024-07-01 12%3A00%3A00/f.parquet", n=[1])
    DeltaLog.convert(str(tmp_path), partition_schema={"p": kind}, time_zone="America/New_York")
    (values,) = (action["add"]["partitionValues"] for action in actions(tmp_path) if "add" in action)
    assert values == {"p": "2024-07-01 12:00:00"}


def test_a_zone_that_is_not_known_is_refused_where_timestamps_need_one(tmp_path):
    write(tmp_path, "p=2024-07-01/f.parquet", n=[1])
    with pytest.raises(NotConvertibleError) as caught:
        DeltaLog.convert(str(tmp_path), partition_schema={"p": "timestamp"}, time_zone="PST")
    assert caught.value.problems == ("the time zone 'PST' is not known",)
    assert DeltaLog.convert(str(tmp_path), partition_schema={"p": "date"}, time_zone="PST").version == 0


def test_columns_are_inferred_as_strings_only_when_asked(tmp_path):
    for day in (1, 2):
        write(tmp_path, f"_year=2020/day={day}/f.parquet", n=[day])
    with pytest.raises(NotConvertibleError) as caught:
        DeltaLog.convert(str(tmp_path))
    assert caught.value.problems == tuple(
        f"_year=2020/day={day}: partitioned by ['_year', 'day'], expected []" for day in (1, 2)
    )
    DeltaLog.convert(str(tmp_path), infer_partitions=True)
    assert rows(tmp_path) == [{"n": day, "_year": "2020", "day": str(day)} for day in (1, 2)]


def test_a_partition_column_that_the_files_hold_too_is_read_from_the_directory(tmp_path):
    write(tmp_path, "p=7/f.parquet", p=[1], n=[1])
    DeltaLog.convert(str(tmp_path), partition_schema={"p": "int"})
    snapshot = DeltaLog.for_table(str(tmp_path)).snapshot()
    assert snapshot.schema.names == ("p", "n")
    assert snapshot.to_arrow().read_all().to_pylist() == [{"p": 7, "n": 1}]
    assert "p" not in json.loads(snapshot.files()["stats"][0].as_py())["minValues"]


@pytest.mark.parametrize(
    ("paths", "schema", "problems"),
    [
        (["f.parquet"], {"p": "int"}, [".: partitioned by [], expected ['p']"]),
        (["a=1/b=2/f", "b=2/a=1/f"], {"a": "int", "b": "int"}, ["b=2/a=1: partitioned by ['b', 'a'], expected ['a', 'b']"]),
        (["p=x/f", "p=y/f", "p=1/f"], {"p": "int"}, ["p: 'x' is not of the type int", "p: 'y' is not of the type int"]),
        (["p=1/f"], {"p": "array<int>"}, ["p: 'array<int>' is not a type for a partition column"]),
        (["p=1/f"], {"p": "nonsense"}, ["p: 'nonsense' is not a type for a partition column"]),
    ],
)
def test_directories_that_do_not_fit_are_all_reported(tmp_path, paths, schema, problems):
    for path in paths:
        write(tmp_path, path, n=[1])
    with pytest.raises(NotConvertibleError) as caught:
        DeltaLog.convert(str(tmp_path), partition_schema=schema)
    assert sorted(caught.value.problems) == problems
    assert not (tmp_path / "_delta_log").exists()


# -- schemas


def test_files_of_several_schemas_become_one(tmp_path):
    write(tmp_path, "1.parquet", n=pa.array([1], pa.int8()), S=["x"])
    write(tmp_path, "2.parquet", n=pa.array([70_000], pa.int32()), more=[1.5])
    write(tmp_path, "3.parquet", N=pa.array([300], pa.int16()), s=["y"])
    DeltaLog.convert(str(tmp_path))
    snapshot = DeltaLog.for_table(str(tmp_path)).snapshot()
    assert [(field.name, str(field.type)) for field in snapshot.schema.fields] == [
        ("n", "int"),
        ("S", "string"),
        ("more", "double"),
    ]
    found = sorted(snapshot.to_arrow().read_all().to_pylist(), key=str)
    assert found == [
        {"n": 1, "S": "x", "more": None}, {"n": 300, "S": "y", "more": None}, {"n": 70_000, "S": None, "more": 1.5},
    ]  # fmt: skip


def test_every_type_that_does_not_go_together_is_reported(tmp_path):
    write(tmp_path, "1.parquet", a=[1], b=["x"], c=pa.array([{"d": 1}]))
    write(tmp_path, "2.parquet", a=["x"], b=["y"], c=pa.array([{"d": "x"}]))
    (tmp_path / "3.csv").write_text("no Parquet")
    with pytest.raises(NotConvertibleError) as caught:
        DeltaLog.convert(str(tmp_path))
    first, second, third = caught.value.problems
    assert (first, second) == ("2.parquet: a: bigint, and string", "2.parquet: c.d: bigint, and string")
    assert third.startswith("3.csv: ")
    assert "Remedy" not in third


def test_an_empty_directory_is_no_table(tmp_path):
    for root in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NotConvertibleError, match="Remedy: name the directory that holds the Parquet files") as caught:
            DeltaLog.convert(str(root))
        assert caught.value.problems == ("the directory does not exist, or has no files",)
    assert not list(tmp_path.rglob("*"))
    write(tmp_path, "_hidden/f.parquet", n=[1])
    with pytest.raises(NotConvertibleError) as caught:
        DeltaLog.convert(str(tmp_path))
    assert caught.value.problems == ("the directory has no Parquet files",)


@pytest.mark.parametrize(
    ("name", "cure"),
    [("delta.columnMapping.mode", "set it after the conversion"), ("delta.enableIcebergCompatV2", "leave the property out")],
)
def test_a_property_that_only_a_table_can_get_is_refused_with_what_to_do(tmp_path, name, cure):
    write(tmp_path, "f.parquet", n=[1])
    with pytest.raises(NotConvertibleError) as caught:
        DeltaLog.convert(str(tmp_path), properties={name: "name" if name.endswith("mode") else "true"})
    assert caught.value.cure.startswith(cure)


def test_a_table_below_the_directory_is_no_part_of_another(tmp_path):
    for path in ("f.parquet", "inner/f.parquet"):
        write(tmp_path, path, n=[1])
    DeltaLog.convert(str(tmp_path / "inner"))
    with pytest.raises(NotConvertibleError) as caught:
        DeltaLog.convert(str(tmp_path))
    assert caught.value.problems == ("inner: it is a table itself",)


def test_int96_is_an_instant_and_int64_without_zone_is_not(tmp_path):
    moment = dt.datetime(2020, 1, 1, 12)  # noqa: DTZ001
    nested = pa.array(
        [{"t": [moment], "m": [("k", moment)]}], pa.struct({"t": pa.list_(NAIVE), "m": pa.map_(pa.string(), NAIVE)})
    )
    write(tmp_path / "old", "f.parquet", t=pa.array([moment], NAIVE), s=nested, use_deprecated_int96_timestamps=True)
    schema = footer_schema(pq.read_metadata(tmp_path / "old" / "f.parquet"))
    inside = StructType((StructField("t", ArrayType(TIMESTAMP)), StructField("m", MapType(STRING, TIMESTAMP))))
    assert schema == StructType((StructField("t", TIMESTAMP), StructField("s", inside)))
    DeltaLog.convert(str(tmp_path / "old"))
    assert rows(tmp_path / "old")[0]["t"] == moment.replace(tzinfo=dt.UTC)

    write(tmp_path / "new", "f.parquet", t=pa.array([moment], NAIVE))
    assert footer_schema(pq.read_metadata(tmp_path / "new" / "f.parquet")).fields[0].type == TIMESTAMP_NTZ
    DeltaLog.convert(str(tmp_path / "new"))
    assert rows(tmp_path / "new") == [{"t": moment}]
    assert DeltaLog.for_table(str(tmp_path / "new")).snapshot().protocol.reader_features == {"timestampNtz"}


NAIVE = pa.timestamp("us")


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.list_(pa.timestamp("ns"))])
def test_times_of_nanoseconds_as_pandas_writes_them_are_reported_for_spark_reads_no_such_file(tmp_path, kind):
    value = [1000] if pa.types.is_list(kind) else 1000
    write(tmp_path, "f.parquet", t=pa.array([value], kind))
    with pytest.raises(NotConvertibleError, match=r"f.parquet: values of the type timestamp\[ns"):
        DeltaLog.convert(str(tmp_path))


def test_bounds_of_the_old_calendar_are_not_taken(tmp_path):
    table = pa.table({"d": [dt.date(2020, 1, 1)]})
    table = table.replace_schema_metadata({"org.apache.spark.version": "2.4.0", "org.apache.spark.legacyDateTime": ""})
    pq.write_table(table, tmp_path / "f.parquet")
    DeltaLog.convert(str(tmp_path))
    assert DeltaLog.for_table(str(tmp_path)).snapshot().files()["stats"].to_pylist() == ['{"numRecords":1}']


def test_what_spark_noted_in_the_footer_counts_without_what_belonged_to_another_table(tmp_path):
    metadata = {"comment": "kept", "delta.columnMapping.id": 7}
    noted = {"type": "struct", "fields": [{"name": "n", "type": "short", "nullable": False, "metadata": metadata}]}
    key = "org.apache.spark.sql.parquet.row.metadata"
    table = pa.table({"n": pa.array([1], pa.int16())})
    pq.write_table(table.replace_schema_metadata({key: json.dumps(noted)}), tmp_path / "f.parquet")
    assert footer_schema(pq.read_metadata(tmp_path / "f.parquet")) == StructType(
        (StructField("n", SHORT, metadata={"comment": "kept"}),)
    )


def test_whole_numbers_widen_and_nothing_else_does():
    def schema(kind):
        return StructType((StructField("a", ArrayType(kind)),))

    for ours, theirs, both in ((BYTE, INTEGER, INTEGER), (SHORT, BYTE, SHORT), (LONG, LONG, LONG)):
        assert merged_schema(schema(ours), schema(theirs)) == (schema(both), ())
    assert merged_schema(schema(INTEGER), schema(LONG))[1] == ("a.element: int, and bigint",)
    twice = StructType((StructField("a", LONG), StructField("A", LONG)))
    assert merged_schema(StructType(()), twice)[1] == ("A: there are two columns of this name",)


def test_many_files_of_one_directory_are_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("airflow_delta.core.operations.convert._READ_AT_ONCE", 3)
    for number in range(10):
        write(tmp_path, f"{number}.parquet", n=[number])
    assert DeltaLog.convert(str(tmp_path)).files == 10
    assert [row["n"] for row in rows(tmp_path)] == list(range(10))
    assert DeltaLog.for_table(str(tmp_path)).snapshot().files("n = 7")["path"].to_pylist() == ["7.parquet"]
