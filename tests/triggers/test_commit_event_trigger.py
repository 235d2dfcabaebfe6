"""The watcher announces every commit that changed data, in ranges, and none is lost whenever its process dies."""

import asyncio
import itertools
import os
import time
from contextlib import asynccontextmanager
from functools import partial

import pytest
import structlog

from airflow_delta.assets import delta_asset
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.hooks.airflow_features import HAS_SHARED_STREAMS
from airflow_delta.triggers import commit_event
from airflow_delta.triggers.commit_event import STATE_KEY, DeltaCommitEventTrigger
from airflow_delta.watch.commit_cursor import poll
from tests.airflow_versions import import_string
from tests.watched_table import WatchedTable

if HAS_SHARED_STREAMS:
    from airflow.triggers.shared_stream import SharedStreamManager

tells_when_events_are_stored = pytest.mark.skipif(
    not HAS_SHARED_STREAMS, reason="this Airflow does not tell when an event is stored"
)


@pytest.fixture(autouse=True)
def settling(monkeypatch):
    monkeypatch.setattr(commit_event, "SETTLING", 0.01)


class AssetStore(dict):
    """The asset's state store, which outlives triggerers."""

    def __getitem__(self, key):
        return self if not isinstance(key, str) else super().__getitem__(key)

    async def aget(self, key):
        return self.get(key)

    async def aset(self, key, value):
        self[key] = value

    def is_at(self, version):
        return self.version == version

    @property
    def version(self):
        return self.get(STATE_KEY, {}).get("version")


class Triggerer:
    """One life of a triggerer: Airflow's own stream manager, and a database that stores events on demand."""

    def __init__(self, trigger, store, ack_timeout):
        path, arguments = trigger.serialize()
        self.trigger = import_string(path)(**arguments)
        self.trigger.asset_state_store = store
        log = structlog.get_logger()
        self.manager = SharedStreamManager(log=log, ack_timeout=ack_timeout) if HAS_SHARED_STREAMS else None
        self.key = self.trigger.shared_stream_key()
        self.fired, self.unconfirmed = [], []

    async def run(self):
        if self.manager is None:
            async for event in self.trigger.run():
                self.fired.append(event.payload)
            return
        stream = self.manager.subscribe(trigger_id=1, trigger=self.trigger, key=self.key)
        async for event in self.trigger.filter_shared_stream(stream):
            self.unconfirmed.append(self.manager.bind_pending_event(trigger_id=1, key=self.key))
            self.fired.append(event.payload)

    def persist(self):
        if self.manager is not None:
            self.manager.confirm_persisted(self.unconfirmed)
        self.unconfirmed = []

    async def events(self, count):
        async with asyncio.timeout(120):
            while len(self.fired) < count:
                await asyncio.sleep(0.005)
                self.persist()
        return self.fired


@asynccontextmanager
async def triggerer(table, store, *, ack_timeout=300, **arguments):
    life = Triggerer(DeltaCommitEventTrigger(table=str(table.root), poll_interval=0.01, **arguments), store, ack_timeout)
    running = asyncio.create_task(life.run())
    try:
        yield life
    finally:
        assert not running.done(), running.exception()
        running.cancel()
        if life.manager is not None:
            await life.manager.stop_all()


async def settled(condition):
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - what it waits for are files and plain values
            await asyncio.sleep(0.005)


@pytest.fixture
def table(tmp_path):
    return WatchedTable(tmp_path / "table")


def ranges(events):
    return [(event["from_version"], event["to_version"]) for event in events]


def test_one_event_covers_all_commits_since_the_last(table):
    async def scenario():
        table.create()
        store = AssetStore()
        async with triggerer(table, store, start="earliest") as life:
            await settled(lambda: store.version == 0)
            table.write(rows=3)
            await life.events(1)
            await settled(lambda: store.version == 1)
            return life.fired, store

    (event,), store = asyncio.run(scenario())
    modified = int((table.root / f"_delta_log/{1:020d}.json").stat().st_mtime_ns) // 1_000_000
    assert event == {
        "table": f"file://{table.root}",
        "from_version": 1,
        "to_version": 1,
        "timestamp": modified,
        "operations": ["WRITE"],
        "commits": 1,
        "rows": 3,
        "gap": False,
        "reset": False,
    }
    assert store[STATE_KEY]["table_id"] == "the-table"


def test_a_burst_is_one_range_and_maintenance_alone_is_no_event(table):
    async def scenario():
        table.create()
        table.write(rows=1)
        table.optimize()
        table.write(rows=2, operation="MERGE")
        table.commit("VACUUM END")
        store = AssetStore()
        async with triggerer(table, store, start="earliest") as life:
            await life.events(1)
            await settled(lambda: store.version == 4)
            table.optimize()
            await settled(lambda: store.version == 5)
            return life.fired

    (event,) = asyncio.run(scenario())
    assert (event["from_version"], event["to_version"], event["operations"]) == (1, 3, ["MERGE", "WRITE"])
    assert (event["commits"], event["rows"]) == (2, 3)


def test_names_of_operations_are_a_stranger_s_texts_of_any_length_and_number(table):
    async def scenario():
        table.create()
        table.write(operation="A" * 3_000_000)
        for number in range(70):
            table.write(operation=f"MERGE {number:02}")
        async with triggerer(table, AssetStore(), start=1) as life:
            return await life.events(1)

    (event,) = asyncio.run(scenario())
    assert event["commits"] == 71
    assert event["operations"] == ["A" * 100, *(f"MERGE {number:02}" for number in range(49))]


def test_an_event_that_airflow_did_not_store_comes_again_and_no_commit_is_lost(table):
    """A triggerer is killed before each event is stored; its successor starts from the cursor."""

    async def scenario():
        table.create()
        store, announced = AssetStore(), []
        for _ in range(5):
            table.write()
            async with triggerer(table, store, start="earliest") as life:
                await settled(lambda: life.fired)
                assert store.version in {None, 0}  # never stored before the event
                announced.append(life.fired[0])
        async with triggerer(table, store, start="earliest") as life:
            await life.events(1)
            await settled(lambda: store.version == 5)
            return announced, life.fired

    lost, (last,) = asyncio.run(scenario())
    assert ranges(lost) == [(1, version) for version in range(1, 6)]
    assert ranges([last]) == [(1, 5)]


@tells_when_events_are_stored
def test_a_poll_that_takes_longer_than_airflow_waits_for_a_watcher_announces_its_commits_once(table, monkeypatch):
    """Airflow ends a watcher after ``shared_stream_ack_timeout``, and has its event none the less."""
    monkeypatch.setenv("AIRFLOW__TRIGGERER__SHARED_STREAM_ACK_TIMEOUT", "0.5")
    monkeypatch.setattr(commit_event, "poll", lambda *given, **named: (time.sleep(1.5), poll(*given, **named))[1])

    async def scenario():
        table.create()
        table.write()
        store = AssetStore()
        async with triggerer(table, store, start="earliest", ack_timeout=0.5) as life:
            await life.events(1)
            await settled(lambda: life.persist() or store.version == 1)
            table.write()
            return await life.events(2)

    assert ranges(asyncio.run(scenario())) == [(1, 1), (2, 2)]


def test_commits_between_two_lives_are_announced_once(table):
    async def scenario():
        table.create()
        store, announced = AssetStore(), []
        async with triggerer(table, store):
            await settled(lambda: store.version == 0)
        for last in (3, 6):
            for _ in range(3):
                table.write()
            async with triggerer(table, store) as life:
                announced += await life.events(1)
                await settled(partial(store.is_at, last))
        async with triggerer(table, store) as life:
            await asyncio.sleep(0.1)
            assert life.fired == []
        return announced

    assert ranges(asyncio.run(scenario())) == [(1, 3), (4, 6)]


@pytest.mark.parametrize(
    ("start", "announced"), [("latest", []), ("earliest", [(1, 3)]), (-1, [(1, 3)]), (2, [(2, 3)]), (9, [])]
)
def test_where_a_new_watcher_begins(table, start, announced):
    async def scenario():
        table.create()
        for _ in range(3):
            table.write()
        store = AssetStore()
        async with triggerer(table, store, start=start) as life:
            await life.events(len(announced))
            await asyncio.sleep(0.1)
            life.persist()
            return life.fired

    events = asyncio.run(scenario())
    assert ranges(events) == announced
    assert not any(event["gap"] for event in events)


@pytest.mark.parametrize("start", ["latest", "earliest", 0])
def test_a_missing_table_is_waited_for(table, start):
    async def scenario():
        store = AssetStore()
        async with triggerer(table, store, start=start) as life:
            await settled(lambda: STATE_KEY in store)
            assert life.fired == []
            assert not table.root.exists()
            table.create()
            table.write()
            return await life.events(1)

    assert ranges(asyncio.run(scenario())) == [(1, 1)]


def test_commits_that_were_cleaned_up_unseen_are_a_gap(table):
    async def scenario():
        table.create()
        store = AssetStore()
        async with triggerer(table, store):
            await settled(lambda: store.version == 0)
        for _ in range(6):
            table.write()
        table.clean_up(5)
        async with triggerer(table, store) as life:
            return await life.events(1)

    (event,) = asyncio.run(scenario())
    assert (event["from_version"], event["to_version"], event["gap"], event["reset"]) == (1, 6, True, False)


@pytest.mark.parametrize("commits", [0, 9], ids=["shorter", "longer"])
def test_a_table_made_anew_begins_again(table, commits):
    async def scenario():
        table.create()
        for _ in range(4):
            table.write()
        store = AssetStore()
        async with triggerer(table, store):
            await settled(lambda: store.version == 4)
        table.drop()
        table.create(table_id="another")
        for _ in range(commits):
            table.write()
        async with triggerer(table, store) as life:
            await life.events(1)
            await settled(lambda: store.version == commits)
            return life.fired, store

    (event,), store = asyncio.run(scenario())
    assert (event["from_version"], event["to_version"], event["reset"]) == (0, commits, True)
    assert store[STATE_KEY]["table_id"] == "another"


def test_a_restored_log_with_new_file_times_is_the_same_table(table):
    async def scenario():
        table.create()
        store = AssetStore()
        async with triggerer(table, store):
            await settled(lambda: store.version == 0)
        file = table.root / f"_delta_log/{0:020d}.json"
        content = file.read_bytes()
        file.unlink()
        await asyncio.sleep(0.01)
        file.write_bytes(content)
        table.write()
        async with triggerer(table, store) as life:
            return await life.events(1)

    (event,) = asyncio.run(scenario())
    assert (event["from_version"], event["reset"]) == (1, False)


@pytest.mark.parametrize("is_seen", [True, False], ids=["before", "after"])
def test_a_replaced_table_whose_log_was_restored_is_the_same_table(table, is_seen):
    """REPLACE TABLE, of Spark, gives the table another id; ``is_seen``: whether the watcher had read it before."""

    async def scenario():
        table.create()
        store = AssetStore()
        async with triggerer(table, store) as life:
            await settled(lambda: store.version == 0)
            if is_seen:
                table.replace(table_id="another")
                await life.events(1)
                await settled(lambda: store.version == 1)
        if not is_seen:
            table.replace(table_id="another")
        for file in (table.root / "_delta_log").glob("*.json"):
            os.utime(file, (1, 1))
        table.write()
        async with triggerer(table, store) as life:
            return await life.events(1)

    (event,) = asyncio.run(scenario())
    assert (event["from_version"], event["to_version"], event["reset"]) == (2 if is_seen else 1, 2, False)


def test_a_dropped_table_is_waited_for(table):
    async def scenario():
        table.create()
        store = AssetStore()
        async with triggerer(table, store) as life:
            await settled(lambda: store.version == 0)
            table.drop()
            await asyncio.sleep(0.05)
            assert life.fired == []
            table.create(table_id="another")
            return await life.events(1)

    assert [event["reset"] for event in asyncio.run(scenario())] == [True]


def test_only_the_wanted_commits_are_announced(table):
    async def scenario():
        table.create()
        table.write(day="2013-01-01", operation="MERGE")
        table.write(day="2013-01-02", operation="MERGE")
        table.write(day="2013-01-02")
        store = AssetStore()
        arguments = {"operations": ["merge"], "partitions": "day = DATE'2013-01-02'"}
        async with triggerer(table, store, start="earliest", **arguments) as life:
            return await life.events(1)

    assert ranges(asyncio.run(scenario())) == [(2, 2)]


def test_a_storage_that_fails_and_a_store_that_fails_are_tried_again(table):
    async def scenario():
        table.create()
        table.write()
        store = AssetStore()
        broken = itertools.count()

        async def failing(key):
            if next(broken) < 2:
                raise ConnectionError("the API server is away")
            return AssetStore.get(store, key)

        store.aget = failing
        log = table.root / "_delta_log"
        log.rename(table.root / "away")
        log.write_text("no directory")  # a table cannot lie here: lists as empty
        async with triggerer(table, store, start="earliest") as life:
            await settled(lambda: next(broken) > 3)
            log.unlink()
            (table.root / "away").rename(log)
            return await life.events(1)

    assert ranges(asyncio.run(scenario())) == [(1, 1)]


def test_a_corrupt_commit_is_no_end_of_the_watch(table):
    async def scenario():
        table.create()
        store = AssetStore()
        async with triggerer(table, store) as life:
            await settled(lambda: store.version == 0)
            file = table.root / f"_delta_log/{1:020d}.json"
            file.write_text("{")
            await asyncio.sleep(0.1)
            assert life.fired == []
            file.unlink()
            table.write()
            return await life.events(1)

    assert ranges(asyncio.run(scenario())) == [(1, 1)]


def test_more_commits_than_one_poll_reads_are_announced_piece_by_piece(table, monkeypatch):
    monkeypatch.setattr("airflow_delta.watch.commit_cursor.MOST_AT_ONCE", 4)

    async def scenario():
        table.create()
        for _ in range(9):
            table.write()
        store = AssetStore()
        async with triggerer(table, store, start="earliest") as life:
            return await life.events(3)

    assert ranges(asyncio.run(scenario())) == [(1, 3), (4, 7), (8, 9)]


def test_without_a_triggerer_an_event_counts_when_the_next_is_requested(table):
    async def scenario():
        table.create()
        table.write()
        trigger = DeltaCommitEventTrigger(table=str(table.root), start="earliest", poll_interval=0.01)
        store = trigger.asset_state_store = AssetStore()
        stream = trigger.run()
        first = await anext(stream)
        assert store.version is None
        table.write()
        return first.payload, (await anext(stream)).payload, store.version

    *events, version = asyncio.run(scenario())
    assert ranges(events) == [(1, 1), (2, 2)]
    assert version == 1


def test_the_arguments_are_the_identity_and_hold_neither_secrets_nor_what_was_computed(table):
    trigger = DeltaCommitEventTrigger(table="s3://lake/flights", delta_conn_id="lake")
    path, arguments = trigger.serialize()
    assert path == "airflow_delta.triggers.commit_event.DeltaCommitEventTrigger"
    assert arguments == {  # a changed default would make every watcher of a running Airflow another one
        "table": "s3://lake/flights",
        "delta_conn_id": "lake",
        "start": "latest",
        "operations": [],
        "partitions": None,
        "poll_interval": 60.0,
        "asset": None,
    }
    again = import_string(path)(**arguments)
    assert again.serialize() == trigger.serialize()
    assert again.shared_stream_key() == trigger.shared_stream_key()
    assert DeltaCommitEventTrigger(table="s3://lake/other").shared_stream_key() != trigger.shared_stream_key()


@pytest.mark.parametrize(
    "arguments",
    [
        {"table": "s3://{{ var.value.bucket }}/flights"},
        {"operations": ["MERGE", "{{ var.value.operation }}"]},
        {"partitions": "day = DATE'{{ ds }}'"},
        {"delta_conn_id": "{{ var.value.lake }}"},
        {"poll_interval": "{{ 30 }}"},
        {"start": "{{ 3 }}"},
    ],
    ids=lambda arguments: next(iter(arguments)),
)
def test_a_template_that_nothing_renders_is_refused_where_the_dag_is_written(arguments):
    """The triggerer would wait for a table of that name, and say nothing."""
    with pytest.raises(InvalidStatementError, match=r"takes no templates.*\{\{"):
        DeltaCommitEventTrigger(**({"table": "s3://lake/flights"} | arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        *({"table": None}, {"table": " "}, {"operations": None}, {"operations": [None]}, {"delta_conn_id": None}),
        *({"partitions": 7}, {"partitions": " "}, {"asset": delta_asset("x", "/x")}),
    ],
    ids=str,
)
def test_what_is_no_text_is_refused_where_the_dag_is_written(arguments):
    with pytest.raises(InvalidStatementError):
        DeltaCommitEventTrigger(**({"table": "s3://lake/flights"} | arguments))


def test_an_unknown_start_is_refused_where_the_dag_is_written():
    with pytest.raises(InvalidStatementError):
        DeltaCommitEventTrigger(table="s3://lake/flights", start="first")
