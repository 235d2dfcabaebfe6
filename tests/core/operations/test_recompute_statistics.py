"""Recomputed statistics are right, are committed without changing data, and never bring a removed file back."""

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CorruptDataFileError, InvalidPredicateError
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.operations.recompute_statistics import StatisticsResult
from airflow_delta.core.transaction.operation import Operation
from tests.core.builders import HandmadeLog, add, metadata, protocol

NAIVE = pa.timestamp("us")


def converted(root, **options):
    """A table without statistics whose one file has these columns."""
    columns = {name: value for name, value in options.items() if isinstance(value, list | pa.Array)}
    root.mkdir(exist_ok=True)
    pq.write_table(
        pa.table(columns), root / "f.parquet", **{key: option for key, option in options.items() if key not in columns}
    )
    DeltaLog.convert(str(root), statistics=False)
    return DeltaLog.for_table(str(root))


def statistics(log):
    return [json.loads(stats) for stats in log.refresh().files()["stats"].to_pylist()]


def test_files_get_the_statistics_they_lack_by_a_commit_without_data_change(real_table):
    table = real_table()
    plain = table.add("p=x/0.parquet", 7, "x")
    bare = table.add("p=x/1.parquet", 8, "x").set_column(5, "stats", pa.array([None], pa.string()))
    table.commit(adds=pa.concat_tables([plain, bare]))

    assert table.log.recompute_statistics() == StatisticsResult(version=2, read=2, changed=2, skipped=0)

    assert statistics(table.log) == [
        {"numRecords": 1, "minValues": {"n": value}, "maxValues": {"n": value}, "nullCount": {"n": 0}} for value in (7, 8)
    ]
    info = table.log.history(1)[0].commit_info
    assert (info.operation, info.operation_parameters, info.isolation_level) == (
        "COMPUTE STATS",
        {"predicate": "[]"},
        "SnapshotIsolation",
    )
    lines = (table.root / commit_path(2)).read_text().splitlines()
    assert [json.loads(line)["add"]["dataChange"] for line in lines if '"add"' in line] == [False, False]
    assert DeltaTable(table.root).to_pyarrow_table()["n"].to_pylist() == [7, 8]
    assert table.log.recompute_statistics() == StatisticsResult(version=2, read=2, changed=0, skipped=0)


def test_on_request_only_files_without_statistics_are_read(real_table):
    table = real_table()
    reported, bare = table.add("p=a/f.parquet", 1, "a"), table.add("p=b/f.parquet", 2, "b")
    bare = bare.set_column(bare.schema.get_field_index("stats"), "stats", pa.nulls(1, pa.string()))
    table.commit(adds=pa.concat_tables([reported, bare]))
    (table.root / "p=a" / "f.parquet").unlink()
    assert table.log.recompute_statistics(missing_only=True) == StatisticsResult(version=2, read=1, changed=1, skipped=0)
    assert table.log.recompute_statistics(missing_only=True) == StatisticsResult(version=2, read=0, changed=0, skipped=0)


def test_only_files_that_can_hold_the_rows_asked_for_are_read(real_table):
    table = real_table()
    table.commit(adds=pa.concat_tables([table.add(f"p={value}/f.parquet", 1, value) for value in "ab"]))
    (table.root / "p=a" / "f.parquet").unlink()
    result = table.log.recompute_statistics("p = 'b'")
    assert (result.read, result.changed) == (1, 1)
    assert table.log.history(1)[0].commit_info.operation_parameters == {"predicate": "[\"p = 'b'\"]"}
    with pytest.raises(CorruptDataFileError):
        table.log.recompute_statistics()
    with pytest.raises(InvalidPredicateError):
        table.log.recompute_statistics("nonsense = 1")


def test_what_a_footer_does_not_tell_is_read_from_the_rows(tmp_path):
    early, late = dt.datetime(1999, 1, 1), dt.datetime(2020, 1, 1, 1, 2, 3, 456_789)  # noqa: DTZ001
    log = converted(
        tmp_path / "t",
        i96=pa.array([late, early, None], NAIVE),
        d=[2.5, -1.5, None],
        nan=[1.0, float("nan"), 2.0],
        l=pa.array([[1], None, []], pa.list_(pa.int64())),
        s=pa.array([{"t": late, "x": 1}, None, {"t": early, "x": None}], pa.struct({"t": NAIVE, "x": pa.int32()})),
        none=pa.array([None] * 3, pa.int64()),
        text=["b", "a", "é"],
        money=pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(20, 2)),
        flag=[True, False, None],
        use_deprecated_int96_timestamps=True,
    )
    log.recompute_statistics()
    (found,) = statistics(log)
    assert found == {
        "numRecords": 3,
        "minValues": {
            "i96": "1999-01-01T00:00:00.000Z", "d": -1.5, "s": {"t": "1999-01-01T00:00:00.000Z", "x": 1},
            "text": "a", "money": -2.25,
        },
        "maxValues": {
            "i96": "2020-01-01T01:02:03.457Z", "d": 2.5, "s": {"t": "2020-01-01T01:02:03.457Z", "x": 1},
            "text": "é", "money": 1.5,
        },
        "nullCount": {
            "i96": 1, "d": 1, "nan": 0, "l": 1, "s": {"t": 1, "x": 2}, "none": 3, "text": 0, "money": 1, "flag": 1,
        },
    }  # fmt: skip


def test_a_file_without_statistics_of_its_own_and_without_a_column_gets_them(tmp_path):
    log = converted(tmp_path / "t", n=[3, 1, None], d=[dt.date(2020, 1, 2)] * 3, write_statistics=False)
    log.recompute_statistics()
    (found,) = statistics(log)
    assert found["minValues"] == {"n": 1, "d": "2020-01-02"}
    assert (found["maxValues"]["n"], found["nullCount"]) == (3, {"n": 1, "d": 0})


def test_the_columns_that_the_table_asks_for_have_statistics(tmp_path):
    root = tmp_path / "t"
    root.mkdir()
    pq.write_table(pa.table({"a": [1], "b": [2]}), root / "f.parquet")
    DeltaLog.convert(str(root), properties={"delta.dataSkippingStatsColumns": "b"}, statistics=False)
    log = DeltaLog.for_table(str(root))
    log.recompute_statistics()
    assert statistics(log) == [{"numRecords": 1, "minValues": {"b": 2}, "maxValues": {"b": 2}, "nullCount": {"b": 0}}]


def test_files_of_the_old_calendar_keep_what_they_have(tmp_path):
    table = pa.table({"d": [dt.date(2020, 1, 1)]}).replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    pq.write_table(table, tmp_path / "f.parquet")
    DeltaLog.convert(str(tmp_path))
    log = DeltaLog.for_table(str(tmp_path))
    assert log.recompute_statistics() == StatisticsResult(version=0, read=1, changed=0, skipped=1)


# -- beside others


@pytest.mark.parametrize("data_change", [True, False])
def test_a_file_that_was_removed_meanwhile_does_not_come_back(real_table, monkeypatch, data_change):
    table = real_table()
    adds = [table.add(f"p=x/{number}.parquet", number, "x") for number in range(2)]
    table.commit(adds=pa.concat_tables(adds))
    other = DeltaLog.for_table(str(table.root))
    start = table.log.start_transaction
    done = []

    def remove_first(snapshot=None):
        transaction = start(snapshot)
        if not done:
            done.append(True)
            removes = removes_of(adds[0], deletion_timestamp=1, data_change=data_change)
            theirs = other.start_transaction()
            theirs.read_whole_table()
            theirs.commit(removes=removes, operation=Operation(name="DELETE" if data_change else "OPTIMIZE"))
        return transaction

    monkeypatch.setattr(table.log, "start_transaction", remove_first)
    result = table.log.recompute_statistics()
    assert (result.version, result.read, result.changed) == (3, 2, 1)
    assert [statistic["minValues"] for statistic in statistics(table.log)] == [{"n": 1}]
    assert DeltaTable(table.root).to_pyarrow_table()["n"].to_pylist() == [1]


def test_many_files_are_read_in_pieces(real_table, monkeypatch):
    monkeypatch.setattr("airflow_delta.core.operations.recompute_statistics._READ_AT_ONCE", 3)
    table = real_table()
    adds = [table.add(f"p=x/{number}.parquet", number, "x") for number in range(10)]
    table.commit(adds=pa.concat_tables(adds))
    assert table.log.recompute_statistics().changed == 10
    assert sorted(statistic["minValues"]["n"] for statistic in statistics(table.log)) == list(range(10))


@pytest.mark.parametrize("name", ["dv_basic", "restored", "column_mapping_name", "plain", "scalar_types", "row_tracking"])
def test_statistics_of_a_table_of_spark_stay_true(golden_table, name):
    root = golden_table(name)
    log = DeltaLog.for_table(str(root))
    before = log.snapshot()
    expected = sorted(map(str, before.to_arrow().read_all().to_pylist()))
    deletion_vectors = before.files().sort_by("path").select(["path", "deletion_vector", "base_row_id", "size"])
    log.recompute_statistics()
    after = log.refresh()
    assert sorted(map(str, after.to_arrow().read_all().to_pylist())) == expected
    assert after.files().sort_by("path").select(["path", "deletion_vector", "base_row_id", "size"]) == deletion_vectors
    for old, new in zip(*(snapshot.files().sort_by("path").to_pylist() for snapshot in (before, after)), strict=True):
        ours, theirs = json.loads(new["stats"]), json.loads(old["stats"])
        assert ours["numRecords"] == theirs["numRecords"]
        assert ours.get("tightBounds", True) is (new["deletion_vector"] is None)
        # Greatest times are rounded up here and down by Spark, which reads them with that in mind.
        least = {column: theirs["minValues"].get(column) for column in ours["minValues"]}
        assert ours["minValues"] == least


def test_a_missing_file_is_reported():
    log = HandmadeLog().commit(protocol(), metadata(), add("gone"))
    with pytest.raises(CorruptDataFileError) as caught:
        log.log.recompute_statistics()
    assert caught.value.file == "gone"
