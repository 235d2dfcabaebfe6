"""Two MERGE jobs that read the same version: both commit if possible, and no update is lost."""

import threading

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.actions import Origin
from airflow_delta.core.statements import MatchedUpdate, MergeStatement, NotMatchedInsert, TableSource
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.jobs.run import run
from airflow_delta.jobs.spec import JobSpec
from tests.spark.sessions import new_session

ADD_UP = (MatchedUpdate(assignments={"flights": "target.flights + source.flights"}), NotMatchedInsert())


@pytest.fixture
def race(spark, tmp_path, monkeypatch):
    """Run one MERGE per feed; each waits for all others before it commits."""

    def run_all(target, *feeds, on, partition_by=None):
        table = str(tmp_path / "table")
        write_deltalake(table, target, partition_by=partition_by)
        specs = []
        for number, feed in enumerate(feeds):
            write_deltalake(f"{table}{number}", feed)
            statement = MergeStatement(table=table, source=TableSource(f"{table}{number}"), on=on, clauses=ADD_UP)
            record = {"dag_id": "dag", "task_id": f"merge_{number}", "run_id": "run"}
            job = {"jobName": f"dag.merge_{number}", "jobRunId": "run"}
            origin = Origin(token=f"{number:032x}", job=job, record=record)
            specs.append(JobSpec(statement=statement, origin=origin, start_version=0))
        barrier, seen, write_if_absent = threading.Barrier(len(specs)), threading.local(), LocalLogStore.write_if_absent

        def held(self, path, content):
            if not getattr(seen, "yes", False):
                seen.yes = True
                barrier.wait(timeout=120)
            write_if_absent(self, path, content)

        monkeypatch.setattr(LocalLogStore, "write_if_absent", held)
        documents = [None] * len(specs)

        def work(number):
            documents[number] = run(new_session(spark), specs[number])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(specs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [document.error for document in documents] == [None] * len(specs)
        return DeltaTable(table), [document.outcome for document in documents]

    return run_all


def days(**flights):
    return pa.table({"day": list(flights), "carrier": ["AA"] * len(flights), "flights": list(flights.values())})


def content(table):
    return sorted((row["day"], row["flights"]) for row in table.to_pyarrow_table().to_pylist())


@pytest.mark.slow
def test_merges_on_different_days_both_commit_and_neither_is_retried(race):
    table, outcomes = race(
        days(mon=1, tue=1),
        days(mon=10),
        days(tue=20),
        on="target.day = source.day AND target.carrier = source.carrier",
        partition_by=["day"],
    )
    assert content(table) == [("mon", 11), ("tue", 21)]
    assert {outcome.version for outcome in outcomes} == {1, 2}
    assert [outcome.read_version for outcome in outcomes] == [0, 0]
    conflicts = [conflict for outcome in outcomes for conflict in outcome.conflicts]
    assert [conflict["rule"] for conflict in conflicts] == [None]


@pytest.mark.slow
def test_of_merges_on_one_row_one_is_retried_and_nothing_is_lost(race):
    table, outcomes = race(
        days(mon=1, tue=1), days(mon=10), days(mon=20), on="target.day = source.day AND target.carrier = source.carrier"
    )
    assert content(table) == [("mon", 31), ("tue", 1)]
    first, second = sorted(outcomes, key=lambda outcome: outcome.version)
    assert (first.version, first.read_version, first.conflicts) == (1, 0, ())
    assert (second.version, second.read_version) == (2, 1)
    (conflict,) = second.conflicts
    assert (conflict["version"], conflict["job"]["jobName"]) == (1, f"dag.merge_{outcomes.index(first)}")
    assert conflict["run"] == {"dag_id": "dag", "task_id": f"merge_{outcomes.index(first)}", "run_id": "run"}
    assert conflict["rule"].startswith("DELTA_CONCURRENT_")
    assert [commit["operation"] for commit in table.history()][:2] == ["MERGE", "MERGE"]


def test_two_merges_that_insert_one_new_key_make_one_row(race):
    table, outcomes = race(
        days(mon=1).slice(0, 0), days(wed=10), days(wed=20), on="target.day = source.day AND target.carrier = source.carrier"
    )
    assert content(table) == [("wed", 30)]
    assert {outcome.version for outcome in outcomes} == {1, 2}
