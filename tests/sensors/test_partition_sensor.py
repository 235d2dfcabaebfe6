"""Waiting for partitions that hold rows: what is there counts, whichever commits it came with."""

import asyncio
import hashlib
import json
import os
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout, AirflowSkipException, TaskDeferred
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR, TriggerFailureReason

from airflow_delta.core.errors import DeltaError, InvalidPredicateError, InvalidStatementError, StorageUnavailableError
from airflow_delta.core.log.file_names import checkpoint_path, commit_path
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.sensors import DeltaCommitSensor, DeltaPartitionSensor
from airflow_delta.triggers.commit import DeltaCommitWaitTrigger
from airflow_delta.watch import bounded_log
from airflow_delta.watch.partition_watch import PartitionWatch
from airflow_delta.watch.waits import PartitionWait
from tests.airflow_versions import operator_log
from tests.core.builders import CHECKPOINT, add, protocol, remove
from tests.sensors.conftest import Store
from tests.watched_table import WatchedTable

DAY = "day = DATE'2026-01-02'"


def file(rows, *, day="2026-01-02", name="a.parquet", **fields):
    stats = {"stats": json.dumps({"numRecords": rows})} if rows is not None else {"stats": None}
    return add(name, partitionValues={"day": day}, **stats, **fields)


def new_context():
    return {"task_state_store": Store(), "ti": SimpleNamespace(max_tries=0, try_number=1)}


def sensor(table, **arguments):
    return DeltaPartitionSensor(task_id="wait", table=str(table.root), **{"partitions": DAY, **arguments})


def poke(table, context=None, **arguments):
    return sensor(table, **arguments).poke(context or new_context()).xcom_value


def test_rows_of_several_commits_count_together_and_other_partitions_do_not(table):
    table.write(day="2026-01-02", rows=3)
    table.write(day="2026-01-01", rows=50)
    assert poke(table) == 2
    assert poke(table, min_rows=4) is None
    assert poke(table, min_rows=53, partitions="day >= DATE'2026-01-01'") == 2
    assert table.write(day="2026-01-02", rows=1) == poke(table, min_rows=4)


@pytest.mark.parametrize("is_rescheduled", [True, False])
def test_rows_of_a_table_that_was_made_anew_with_as_many_versions_are_counted(table, monkeypatch, is_rescheduled):
    monkeypatch.setattr("airflow_delta.watch.partition_watch.LISTED_EVERY", 3)
    table.write(day="2026-01-01")
    context, waiting = new_context(), sensor(table)
    assert waiting.poke(context).xcom_value is None
    first = (table.root / commit_path(1)).stat().st_mtime_ns
    table.drop()
    table.create(table_id="another")
    table.write(day="2026-01-02")
    os.utime(table.root / commit_path(1), ns=(first + 10**9, first + 10**9))
    if is_rescheduled:
        assert sensor(table).poke(context).xcom_value == 1
    else:
        assert [waiting.poke(context).xcom_value for _ in range(3)] == [None, None, 1]


def test_rows_that_are_gone_or_hidden_do_not_count(table):
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40, "cardinality": 4}
    table.commit("WRITE", file(10), file(10, name="b.parquet", deletionVector=vector))
    assert poke(table, min_rows=16) == 1
    assert poke(table, min_rows=17) is None
    table.commit("DELETE", remove("a.parquet", partitionValues={"day": "2026-01-02"}))
    assert poke(table, min_rows=6) == 2
    assert poke(table, min_rows=7) is None


def test_a_file_without_a_row_count_proves_that_the_partition_exists(table):
    assert poke(table) is None
    table.commit("WRITE", file(None))
    assert poke(table) == 1
    assert poke(table, min_rows=2) is None


def test_a_row_count_that_no_file_can_have_counts_as_an_unknown_one(table):
    beyond = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}
    table.commit("WRITE", *(file(2**63 - 1, name=f"{number}.parquet") for number in range(3)))
    table.commit("WRITE", file(5, name="more.parquet", deletionVector=beyond | {"cardinality": 9}))
    assert poke(table, min_rows=3) == 2
    assert poke(table, min_rows=4) is None


def test_a_missing_table_is_waited_for(tmp_path):
    table = WatchedTable(tmp_path / "later")
    waiting = sensor(table)
    assert waiting.poke(new_context()).xcom_value is None
    table.create()
    table.write(day="2026-01-02")
    assert waiting.poke(new_context()).xcom_value == 1


@pytest.fixture
def requests(monkeypatch):
    """Names of the requests to the storage, in order."""
    made = []

    def recorded(name, request):
        return lambda self, *given: (made.append(name), request(self, *given))[1]

    for name in ("exists", "list_from", "read", "open_input", "status"):
        monkeypatch.setattr(LocalLogStore, name, recorded(name, getattr(LocalLogStore, name)))
    return made


def test_a_poke_without_a_new_version_is_one_request(table, requests):
    waiting, context = sensor(table), new_context()
    for expected in (None, ["exists"], ["exists"]):
        requests.clear()
        assert waiting.poke(context).xcom_value is None
        assert expected in (None, requests)


def test_a_rescheduled_poke_without_a_new_version_is_one_listing(table, requests):
    context = new_context()
    assert poke(table, context) is None
    requests.clear()
    assert poke(table, context) is None
    assert requests == ["list_from"]
    assert table.write(day="2026-01-02") == poke(table, context) == 1


def test_a_cleared_task_counts_anew_and_so_does_another_question(table):
    context = new_context()
    table.write(day="2026-01-02", rows=3)
    assert poke(table, context, min_rows=4) is None
    assert poke(table, context, min_rows=3) == 1
    assert poke(table, context, min_rows=5) is None
    context["ti"].max_tries += 1
    table.commit("DELETE")
    assert poke(table, context, min_rows=3) == 2


def test_progress_that_cannot_be_stored_or_read_hides_no_version(table):
    class Away(Store):
        def get(self, key, default=None):
            raise RuntimeError("the API server is away")

        def set(self, key, value):
            raise RuntimeError("the API server is away")

    context = new_context() | {"task_state_store": Away()}
    assert poke(table, context) is None
    assert table.write(day="2026-01-02") == poke(table, context) == 1


def test_a_version_that_could_not_be_counted_is_counted_by_the_next_poll(table, monkeypatch):
    watch = PartitionWatch(table.store, PartitionWait(partitions=DAY))
    assert watch.poll() is None
    version, files = table.write(day="2026-01-02"), Snapshot.files
    answers = iter([StorageUnavailableError(uri="t", detail="503")])

    def failing(snapshot, *arguments):
        error = next(answers, None)
        if error:
            raise error
        return files(snapshot, *arguments)

    monkeypatch.setattr(Snapshot, "files", failing)
    with pytest.raises(StorageUnavailableError):
        watch.poll()
    assert (watch.wait.after, watch.poll()) == (0, version)


@pytest.mark.parametrize("most_bytes", [bounded_log.MOST_BYTES, 10], ids=["here", "in a process of its own"])
def test_it_waits_in_the_triggerer(table, monkeypatch, most_bytes):
    monkeypatch.setattr(bounded_log, "MOST_BYTES", most_bytes)
    assert fired_by_a_commit(table) == 1


def test_it_waits_in_the_triggerer_for_a_table_whose_checkpoint_is_read_elsewhere(table):
    table.commit("WRITE")
    definition = json.loads(table.store.read(commit_path(0)).splitlines()[2])
    adds = [
        file(1, day="2026-01-01", name=f"{hashlib.sha256(b'%d' % number).hexdigest()[:40]}.parquet") for number in range(16_000)
    ]
    with table.store.open_output(checkpoint_path(1)) as stream:
        pq.write_table(pa.Table.from_pylist([protocol(), definition, *adds], CHECKPOINT), stream)
    assert (
        table.root / checkpoint_path(1)
    ).stat().st_size < bounded_log.MOST_BYTES  # the definition is read here, not the files
    assert fired_by_a_commit(table) == 2


def fired_by_a_commit(table):
    """What a sensor returns whose condition is fulfilled while it waits in the triggerer."""
    waiting = sensor(table, deferrable=True, poke_interval=0.01)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute(new_context())
    path, arguments = deferred.value.trigger.serialize()
    assert path.endswith("DeltaCommitWaitTrigger")
    trigger = DeltaCommitWaitTrigger(**arguments)

    async def fired():
        event = asyncio.create_task(anext(trigger.run()))
        await asyncio.sleep(0.05)
        assert not event.done()
        table.write(day="2026-01-02")
        return (await asyncio.wait_for(event, 60)).payload

    return waiting.execute_complete({}, asyncio.run(fired()))


@pytest.mark.parametrize(
    "arguments",
    [{"partitions": ""}, {"partitions": DAY, "min_rows": 0}, {"partitions": DAY, "min_rows": "many"}],
)
def test_a_wait_that_means_nothing_is_refused_when_the_dag_is_parsed(arguments):
    with pytest.raises(InvalidStatementError):
        DeltaPartitionSensor(task_id="wait", table="/lake/t", **arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"table": " "}, "table must be"),
        ({"table": "/t", "poke_interval": 0, "deferrable": True}, "poke_interval must be more than 0"),
    ],
)
def test_a_wait_without_a_table_or_without_a_pause_in_the_triggerer_is_refused_when_the_dag_is_parsed(arguments, text):
    with pytest.raises(InvalidStatementError, match=text):
        DeltaPartitionSensor(task_id="wait", partitions=DAY, **arguments)
    with pytest.raises(InvalidStatementError, match=text):
        DeltaCommitSensor(task_id="wait", after_version=1, **arguments)


def test_a_column_that_does_not_partition_the_table_ends_the_wait(table):
    with pytest.raises(InvalidStatementError, match="only partition columns"):
        poke(table, partitions="id = 1")
    with pytest.raises(DeltaError):
        poke(table, partitions="nothing = 1")


UNDECIDED = ["day = DATE'None'", "year(day) = 1999", "day >= current_date()", "day = DATE'2026-01-02' OR day = DATE'None'"]


@pytest.mark.parametrize("partitions", UNDECIDED)
def test_a_condition_that_only_spark_can_decide_is_refused_instead_of_counting_every_partition(table, partitions):
    table.write(day="2026-01-01", rows=50)
    with pytest.raises(InvalidPredicateError, match="compares partition columns with literals of their type, such as DATE"):
        poke(table, partitions=partitions)


def test_a_column_that_does_not_partition_the_table_is_refused_with_those_that_do(table):
    table.write(day="2026-01-01", rows=50)
    with pytest.raises(InvalidStatementError, match=r"\(those are day\), found 'id = 5'"):
        poke(table, partitions="id = 5")


def said(logged):
    return "\n".join(text for _, text in logged)


def test_at_the_timeout_the_log_says_what_the_table_has(table):
    table.write(day="2026-01-01", rows=50)
    with pytest.raises(AirflowSensorTimeout), operator_log() as logged:
        sensor(table, timeout=0.01, poke_interval=0.01).execute(new_context())
    assert f"found: 0 rows where {DAY}; the latest commit of {table.root} is version 1 (WRITE), of 20" in said(logged)


def test_at_the_timeout_in_the_triggerer_the_log_says_what_the_table_has(table):
    ended = {"error": TriggerFailureReason.TRIGGER_TIMEOUT}
    with pytest.raises(AirflowSensorTimeout), operator_log() as logged:
        sensor(table, deferrable=True).resume_execution(TRIGGER_FAIL_REPR, ended, new_context())
    assert f"found: 0 rows where {DAY}; the latest commit of {table.root} is version 0" in said(logged)


@pytest.mark.parametrize("deferrable", [False, True])
def test_the_log_says_so_too_where_the_timeout_skips_the_task(table, deferrable):
    waiting = sensor(table, timeout=0.01, poke_interval=0.01, soft_fail=True, deferrable=deferrable)
    ended = {"error": TriggerFailureReason.TRIGGER_TIMEOUT}
    # Airflow 3.0 fails a deferred one all the same.
    with pytest.raises((AirflowSkipException, AirflowSensorTimeout)), operator_log() as logged:
        waiting.resume_execution(TRIGGER_FAIL_REPR, ended, new_context()) if deferrable else waiting.execute(new_context())
    assert f"found: 0 rows where {DAY}; the latest commit of {table.root} is version 0" in said(logged)


def test_at_the_timeout_the_log_says_that_there_is_no_table(tmp_path):
    waiting = DeltaPartitionSensor(
        task_id="wait", table=str(tmp_path / "none"), partitions=DAY, timeout=0.01, poke_interval=0.01
    )
    with pytest.raises(AirflowSensorTimeout), operator_log() as logged:
        waiting.execute(new_context())
    assert f"The wait timed out; found: no Delta table at {tmp_path / 'none'}" in said(logged)
