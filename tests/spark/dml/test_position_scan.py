"""The rows of a match: those with one of the keys, with the file and the position that they have, in this order."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.schema import StructType
from airflow_delta.spark.dml import position_scan
from airflow_delta.spark.dml.position_scan import FILE, POSITIONED, ROW, PositionScan
from airflow_delta.spark.io.map_files import TASK, FileShares
from airflow_delta.spark.io.shared_bytes import CarriedBytes
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.io.worker_values import to_ipc

DAY = dt.date(2020, 1, 1)
COLUMNS = {
    "i": (pa.int32(), lambda n: None if n % 10 == 0 else n),
    "t": (pa.string(), lambda n: f"t{n % 40}"),
    "day": (pa.date32(), lambda n: DAY + dt.timedelta(n % 7)),
    "d": (pa.decimal128(9, 2), lambda n: Decimal(n) / 4),
    "raw": (pa.binary(), lambda n: bytes([n % 250])),
    "x": (pa.float64(), float),
    "inside": (pa.struct([("a", pa.list_(pa.int64()))]), lambda n: {"a": [n, None]}),
}
FILES = (range(150_000), range(150_000, 150_003), range(150_003, 150_500))
ROWS = [
    {name: value(number) for name, (_, value) in COLUMNS.items()} | {FILE: file, ROW: row}
    for file, numbers in enumerate(FILES)
    for row, number in enumerate(numbers)
]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    """Three files, the first of them of more rows than are read at a time."""
    path = str(tmp_path_factory.mktemp("scanned"))
    for number in range(len(FILES)):
        rows = [row for row in ROWS if row[FILE] == number]
        schema = pa.schema([(name, type_) for name, (type_, _) in COLUMNS.items()])
        write_deltalake(path, pa.Table.from_pylist(rows, schema), mode="append")
    return DeltaLog.for_table(path).snapshot()


@pytest.fixture
def scan(snapshot):
    """The rows that a scan of all files gives, by one task, with ``FILE`` and ``ROW``."""

    def run(columns, keys, **options):
        files = snapshot.files().sort_by("modification_time")
        shared = files.append_column(FILE, pa.array(range(len(FILES)), pa.int32())).select(POSITIONED)
        worker = PositionScan(
            table=TableFiles.of(snapshot),
            columns=StructType(tuple(snapshot.schema.find(name) for name in columns)),
            shares=FileShares(files=to_ipc(shared.append_column(TASK, pa.array([0] * len(FILES), pa.int32()))), stride=4),
            keys=CarriedBytes(to_ipc(pa.table(keys))),
            **options,
        )
        tasks = pa.RecordBatch.from_pydict({"task": pa.array([0])})
        return [row for batch in worker(iter([tasks])) for row in batch.to_pylist()]

    return run


def rows_where(is_wanted, columns):
    return [{name: row[name] for name in (*columns, FILE, ROW)} for row in ROWS if is_wanted(row)]


@pytest.mark.parametrize("beside", [[], ["x"], ["inside"]], ids=["keys alone", "a value", "a nested value"])
@pytest.mark.parametrize(
    "keys",
    [
        {"i": pa.array([7, 10, 131_073, 150_001, 150_003, 1 << 40, None], pa.int64())},
        {"t": pa.array(["t3", "t39", "none"])},
        {"day": pa.array([DAY, None])},
        {"d": pa.array([Decimal("0.25"), Decimal("37500.75")], pa.decimal128(9, 2))},
        {"raw": pa.array([b"\x05"])},
        {"t": pa.array(["t3", "t4", "t3"]), "i": pa.array([3, 4, 4], pa.int64())},
        {"i": pa.array([], pa.int64())},
    ],
    ids=["longs", "texts", "days", "decimals", "bytes", "two", "none"],
)
def test_rows_with_a_key_come_in_their_order_whatever_comes_along(scan, keys, beside):
    wanted = {key for key in zip(*(column.to_pylist() for column in keys.values()), strict=True) if None not in key}
    columns = [*keys, *beside]

    assert scan(columns, keys) == rows_where(lambda row: tuple(row[name] for name in keys) in wanted, columns)


def test_a_pyarrow_that_joins_no_stream_of_batches_finds_the_same_rows(scan, monkeypatch):
    monkeypatch.delattr("pyarrow.acero.RecordBatchReaderSourceNodeOptions", raising=False)  # as before 26
    monkeypatch.setattr(position_scan, "_JOINS_BATCHES", False)
    found = scan(["i", "x"], {"i": pa.array([7, 10, 131_073, None], pa.int64())})
    assert found == rows_where(lambda row: row["i"] in (7, 131_073), ["i", "x"])


def test_rows_for_which_a_condition_holds_stay_whatever_their_key(scan):
    found = scan(["i", "x"], {"i": pa.array([7, 8], pa.int64())}, unless=pc.field("x") > 150_400)

    assert found == rows_where(lambda row: row["i"] in (7, 8) or row["x"] > 150_400, ["i", "x"])
