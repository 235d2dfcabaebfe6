"""Maintenance statements report what they did, or in a dry run what they would do; no row changes."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import CheckpointStatement, CleanUpLogStatement, RestoreStatement, VacuumStatement
from airflow_delta.jobs import outcome
from airflow_delta.jobs.core_statements import execute_in_core


@pytest.fixture
def flights(tmp_path):
    """Two versions; the second one replaced the file of the first."""
    for mode in ("append", "overwrite"):
        write_deltalake(str(tmp_path / "flights"), pa.table({"id": [1]}), mode=mode)
    return tmp_path / "flights"


def execute(statement):
    return execute_in_core(DeltaLog.for_table(statement.table), statement, origin=Origin(token="0" * 32), start_version=1)


def files(table):
    return sorted(path.name for path in table.glob("*.parquet"))


@pytest.mark.parametrize("how", [{}, {"lite": True}, {"inventory": True}])
def test_a_vacuum_names_what_it_would_delete_and_then_deletes_it(flights, tmp_path, how):
    (gone,) = set(files(flights)) - {path.rsplit("/", 1)[-1] for path in DeltaTable(str(flights)).file_uris()}
    if "inventory" in how:
        row = {"path": str(flights / gone), "length": 1, "isDir": False, "modificationTime": 0}
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / "inventory.parquet")
        how = {"inventory": str(tmp_path / "inventory.parquet")}
    arguments = {"table": str(flights), "retention_hours": 0, "enforce_retention": False, **how}
    result = execute(VacuumStatement(**arguments, dry_run=True))
    assert (result.details["paths"], result.metrics["numFilesToDelete"], result.committed) == ([gone], 1, False)
    assert gone in files(flights)
    deleted = execute(VacuumStatement(**arguments, dry_run=False))
    assert (deleted.metrics["numDeletedFiles"], deleted.committed, deleted.version) == (1, True, 3)
    assert gone not in files(flights)
    assert DeltaTable(str(flights)).to_pyarrow_table().to_pydict() == {"id": [1]}


@pytest.mark.parametrize(
    ("kind", "suffix"), [("classic", ".checkpoint.parquet"), ("multi-part", ".parquet"), (None, ".parquet")]
)
def test_a_checkpoint_is_written_in_the_requested_kind(flights, kind, suffix):
    result = execute(CheckpointStatement(table=str(flights), kind=kind))
    assert (result.version, result.committed) == (1, False)
    (written, *_) = (flights / "_delta_log").glob(f"{1:020d}.checkpoint*")
    assert written.name.endswith(suffix)


def test_a_cleanup_names_what_it_would_delete_and_then_deletes_it(flights):
    now = DeltaLog.for_table(str(flights)).clock() + 60 * 86_400_000
    log = DeltaLog.for_table(str(flights), clock=lambda: now)
    log.checkpoint()
    statement = CleanUpLogStatement(table=str(flights), dry_run=True)
    result = execute_in_core(log, statement, origin=Origin())
    assert result.details == {"barrier": 1, "paths": [f"_delta_log/{0:020d}.json"]}
    assert (flights / "_delta_log" / f"{0:020d}.json").exists()
    deleted = execute_in_core(log, CleanUpLogStatement(table=str(flights)), origin=Origin())
    assert deleted.metrics == {"numLogFiles": 1, "numSidecars": 0, "numTemporaryFiles": 0}
    assert not (flights / "_delta_log" / f"{0:020d}.json").exists()


def test_a_commit_that_cannot_be_read_again_is_reported_as_committed(flights, monkeypatch):
    def fail(store, version):
        raise OSError("the network is gone")

    monkeypatch.setattr(outcome, "read_commit_info", fail)
    result = execute(RestoreStatement(table=str(flights), version=0))
    assert (result.committed, result.version) == (True, 2)
    assert result.warnings == ("reading version 2 again failed: OSError: the network is gone",)
