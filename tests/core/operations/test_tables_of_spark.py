"""Every operation on every table that Spark wrote: the rows stay those of the version, whatever features the table uses."""

import contextlib
import os
import time

import pytest
from deltalake import DeltaTable, QueryBuilder

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    AppendOnlyTableError,
    LegacyCalendarError,
    VacuumLiteImpossibleError,
)
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.table_properties import is_append_only
from tests.golden_tables import TABLES
from tests.slow_cases import slow_after

DAY = 86_400_000
OPERATION = Operation(name="WRITE")
NAMES = sorted(path.parent.name for path in TABLES.glob("*/table"))
EVERY_THIRD, OTHERS = NAMES[::3], [name for number, name in enumerate(NAMES) if number % 3]


@pytest.fixture(params=slow_after(len(EVERY_THIRD), EVERY_THIRD + OTHERS))
def table(request, golden_table):
    """A copy of the table, whose files are all old."""
    root = golden_table(request.param)
    for path in root.rglob("*"):
        if path.is_file() and "_delta_log" not in path.parts:
            os.utime(path, (1, 1))
    log = DeltaLog.for_table(str(root), clock=lambda: time.time_ns() // 1_000_000 + 10 * DAY)
    log.start_transaction().commit(operation=OPERATION, allow_empty=True)
    return log


def rows(snapshot):
    return sorted(map(str, snapshot.to_arrow().read_all().to_pylist()))


def deltalakes_rows(root):
    """How many rows deltalake reads; None where it cannot read the table."""
    with contextlib.suppress(Exception):
        return QueryBuilder().register("t", DeltaTable(root)).execute("SELECT count(*) AS n FROM t").read_all()["n"][0].as_py()
    return None


def test_a_vacuum_keeps_every_row(table):
    before = rows(table.snapshot())
    with contextlib.suppress(VacuumLiteImpossibleError):
        table.vacuum(0, enforce_retention=False, lite=True)
    assert rows(table.refresh()) == before
    table.vacuum(0, enforce_retention=False)
    assert rows(table.refresh()) == before
    assert table.vacuum(0, enforce_retention=False).files == 0


def test_each_version_can_be_restored(table):
    latest = table.snapshot().version
    for version in {latest // 2, latest - 1}:
        expected = table.snapshot(version)
        before = expected.files()
        if version == table.refresh().version:
            continue
        if is_append_only(table.refresh().metadata.configuration):
            with contextlib.suppress(AppendOnlyTableError):  # raised when rows would go
                table.restore(version)
            continue
        table.restore(version)
        restored = table.refresh()
        assert rows(restored) == rows(expected)
        assert (restored.schema.names, restored.partition_columns) == (expected.schema.names, expected.partition_columns)
        assert sorted(restored.files()["path"].to_pylist()) == sorted(before["path"].to_pylist())
        ids = [base_row_id for base_row_id in before["base_row_id"].to_pylist() if base_row_id is not None]
        assert set(ids) <= set(restored.files()["base_row_id"].to_pylist())
        assert deltalakes_rows(table.table_uri) in (None, len(rows(expected)))


def test_a_clone_has_the_same_rows(table, tmp_path):
    table.shallow_clone(str(tmp_path / "clone of it"))
    clone = DeltaLog.for_table(str(tmp_path / "clone of it"))
    expected = rows(table.snapshot())
    assert rows(clone.snapshot()) == expected
    assert deltalakes_rows(tmp_path / "clone of it") in (None, len(expected))
    clone.vacuum(0, enforce_retention=False)
    assert rows(table.refresh()) == expected


def test_recomputed_statistics_hide_no_row(table):
    before = rows(table.snapshot())
    with contextlib.suppress(LegacyCalendarError):
        table.recompute_statistics()
    after = table.refresh()
    assert rows(after) == before
    for field in after.schema.fields:
        with contextlib.suppress(Exception):  # a type without comparisons
            found = after.to_arrow(where=f"`{field.name}` IS NOT NULL").read_all()
            every = after.to_arrow().read_all()
            assert len(found) == len(every) - every[field.name].null_count
