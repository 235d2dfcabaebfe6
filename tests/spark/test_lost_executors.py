"""Executors killed (SIGKILL) in the middle of statements: each ends in its first attempt, and no row is lost or doubled."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.table_changes.create import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from tests.spark import lost_executors

pytestmark = [pytest.mark.slow, pytest.mark.classic(reason="starts a cluster of its own")]

ROWS, FILES = 2_000, 8
IDENTITY = "k BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 1 INCREMENT BY 1)"


def _with_changes(place):
    """Rows in several files; what happens to them is recorded."""
    for part in range(FILES):
        ids = list(range(part * ROWS // FILES, (part + 1) * ROWS // FILES))
        values = [float(row_id) for row_id in ids]
        rows = pa.table({"id": pa.array(ids, pa.int64()), "v": values, "w": values})
        write_deltalake(place, rows, mode="append", configuration={"delta.enableChangeDataFeed": "true"})


def _with_identity(place):
    DeltaLog.for_table(place).create(NewTable(schema=parse_struct(f"id BIGINT, v DOUBLE, {IDENTITY}")))


def _empty(place):
    DeltaLog.for_table(place).create(NewTable(schema=parse_struct("id BIGINT, v DOUBLE")))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What came of each scenario, and its table."""
    folder = tmp_path_factory.mktemp("lost")
    for scenario in lost_executors.SCENARIOS:
        name = scenario.__name__
        make = _empty if "in_place" in name else _with_identity if "identity" in name else _with_changes
        make(str(folder / scenario.__name__))
    code = str(Path(__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": code, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "tests.spark.lost_executors", str(folder)]
    with (folder / "log").open("wb") as log:
        ended = subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log, check=False, timeout=1_500)
    assert ended.returncode == 0, (folder / "log").read_text()

    def outcome(name):
        return json.loads((folder / f"{name}.json").read_text()), str(folder / name)

    return outcome


def _ended_well(outcome, *, version, killed, attempts=1):
    """The table's rows by id, where the statement has committed once, in so many attempts, and has left nothing cached."""
    found, table = outcome
    del found["seconds"]
    assert found == {"version": version, "attempts": attempts, "killed": killed, "cached": 0}
    assert DeltaTable(table).version() == version
    rows = DeltaTable(table).to_pyarrow_table().sort_by("id").to_pylist()
    by_id = {row["id"]: row for row in rows}
    assert len(by_id) == len(rows)
    return by_id


def _recorded(table, version, *kinds):
    """The rows that the change feed of a version holds."""
    changes = DeltaTable(table).load_cdf(starting_version=version, ending_version=version).read_all()
    return {row["id"]: row["v"] for row in pa.table(changes).to_pylist() if row["_change_type"] in kinds}


NEW = ("insert", "update_postimage")
MERGED = [*range(0, 3_000, 3)]


@pytest.mark.parametrize(("scenario", "killed"), [("merge_changes", 4), ("merge_while_tasks_run", 1)])
def test_a_merge_goes_on_without_the_executors_that_held_its_rows(outcomes, scenario, killed):
    rows = _ended_well(outcomes(scenario), version=FILES, killed=killed)
    assert {row_id for row_id, row in rows.items() if row["v"] == -1} == {*MERGED}
    assert len(rows) == ROWS + sum(row_id >= ROWS for row_id in MERGED)


def test_a_source_that_draws_numbers_is_merged_as_it_was_first(outcomes):
    found, table = outcomes("merge_random_rows")
    rows = _ended_well((found, table), version=FILES, killed=6)
    assert all(0 <= rows[row_id]["v"] == rows[row_id]["w"] < 1 for row_id in MERGED)
    assert _recorded(table, FILES, *NEW) == {row_id: rows[row_id]["v"] for row_id in MERGED}


def test_inserted_rows_have_each_an_identity_value_of_their_own(outcomes):
    rows = _ended_well(outcomes("merge_into_identity"), version=1, killed=4)
    assert sorted(rows) == [*range(1_000, 3_000)]
    assert sorted(row["k"] for row in rows.values()) == [*range(1, 2_001)]


def test_written_rows_have_each_an_identity_value_of_their_own(outcomes):
    rows = _ended_well(outcomes("write_identity"), version=1, killed=2)
    assert sorted(rows) == [*range(3_000, 5_000)]
    assert sorted(row["k"] for row in rows.values()) == [*range(1, 2_001)]


def test_an_update_goes_on_without_the_executors_that_held_its_rows(outcomes):
    rows = _ended_well(outcomes("update_rows"), version=FILES, killed=2)
    assert {row_id: row["v"] - row_id for row_id, row in rows.items()} == {row_id: row_id % 3 == 0 for row_id in range(ROWS)}


def test_random_values_of_an_update_are_those_that_it_records(outcomes):
    found, table = outcomes("update_to_random_values")
    rows = _ended_well((found, table), version=FILES, killed=2)
    changed = {row_id: rows[row_id]["v"] for row_id in range(0, ROWS, 3)}
    assert len(rows) == ROWS
    assert _recorded(table, FILES, "update_postimage") == changed


def test_a_delete_goes_on_without_the_executors_that_held_its_rows(outcomes):
    rows = _ended_well(outcomes("delete_rows"), version=FILES, killed=2)
    assert sorted(rows) == [row_id for row_id in range(ROWS) if row_id % 3]


def test_a_clustering_goes_on_without_an_executor_that_held_a_part_of_its_shuffle(outcomes):
    # It is attempted outside of the loop that counts, and never again.
    rows = _ended_well(outcomes("optimize_while_tasks_run"), version=FILES, killed=1, attempts=0)
    assert {row_id: row["v"] for row_id, row in rows.items()} == {row_id: row_id for row_id in range(ROWS)}


def _ended_in_place(outcome, *, killed):
    """The table has each row once, and its files are those of one attempt of each task."""
    found, table = outcome
    rows = _ended_well((found, table), version=1, killed=killed)
    assert {row_id: row["v"] for row_id, row in rows.items()} == dict.fromkeys(range(2_000), 1.0)
    live = {Path(path).relative_to(table) for path in DeltaTable(table).file_uris()}
    assert live == {path.relative_to(table) for path in Path(table).glob("write-*/**/*.parquet")}
    attempts = [path.parts[2].split("-") for path in live]
    assert sorted(task for task, _ in attempts) == [str(task) for task in range(8)]
    return {int(task): int(attempt) for task, attempt in attempts}


def test_of_an_executor_that_was_killed_while_it_wrote_files_in_their_place_no_file_remains(outcomes):
    attempts = _ended_in_place(outcomes("write_in_place_while_files_are_open"), killed=1)
    in_turn = {task: attempts[0] + task for task in range(8)}  # Spark counts attempts, which begin in the order of tasks
    assert attempts != in_turn  # one was repeated; it may be the first


def test_files_that_were_written_in_their_place_by_attempts_that_failed_are_not_committed(outcomes):
    attempts = _ended_in_place(outcomes("write_in_place_after_tasks_have_failed"), killed=0)
    assert len(set(attempts.values())) == 8
    assert max(attempts.values()) - min(attempts.values()) >= 9
