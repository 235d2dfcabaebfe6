"""A task that drops a table with its files, killed at every step and retried: the whole table is deleted, and nothing else."""

import json
import os
import signal
import subprocess
import sys

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.catalogs.catalog import publish
from airflow_delta.catalogs.entry import TableDescription
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core import DeltaLog

pytestmark = pytest.mark.slow  # some dozens of processes

ORDERS, KEY = TableName("orders", "sales"), ("main", "sales", "orders")
PLACES = 16


@pytest.fixture
def tries(unity, tmp_path):
    """A process that runs one try: how it ended, and what it returned."""
    folder = tmp_path / "answers"
    folder.mkdir()
    answer = folder / "answer.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.operators.killed_drops"],
        env=os.environ.copy(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def run(root, number, attempt):
        answer.unlink(missing_ok=True)
        request = {"root": str(root), "number": number, "try": attempt, "answer": str(answer)}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        code = int(process.stdout.readline())
        return code, json.loads(answer.read_text()) if answer.exists() else None

    yield run
    process.stdin.close()
    process.wait()


@pytest.fixture
def fresh(unity, tmp_path):
    """A folder with ``orders``, which has three commits and is published, and a neighbor whose name has the same prefix."""

    def make(name):
        root = tmp_path / name
        for folder in ("state", "xcoms", "tables"):
            (root / folder).mkdir(parents=True)
        for day in range(3):
            rows = pa.table({"id": list(range(4)), "day": [day] * 4, "part": [0, 1, 2, 3]})
            write_deltalake(str(root / "tables" / "orders"), rows, mode="append", partition_by=["day", "part"])
        write_deltalake(str(root / "tables" / "orders_of_today"), pa.table({"id": [7]}))
        unity.tables.clear()
        publish_as_orders(unity, root / "tables" / "orders")
        return root

    return make


def publish_as_orders(unity, table):
    publish(unity.client, ORDERS, TableDescription.of(DeltaLog.for_table(str(table)).snapshot()))


def files(root):
    return [path for path in root.rglob("*") if path.is_file()]


def spread(places, count):
    places = list(places)
    return places if len(places) <= count else [places[number * len(places) // count] for number in range(count)]


def killed_at_places(tries, fresh, unity, before=PLACES, behind=PLACES):
    """Yield a folder for each place, whose first try was killed there, and whether its name was gone by then.

    Places are before each request, and before each event of a file; so many before the catalog drops the name, and behind.
    """
    root = fresh("counted")
    _, told = tries(root, -1, 1)
    events = told["events"]
    requests = [number for number, event in enumerate(events) if event == "http.client.send"]
    last = requests[-1]  # the catalog drops the name
    assert files(root / "tables" / "orders") == []
    assert 1 < last < len(events) - 12
    for number in (*spread(range(last + 1), before), *spread(range(last + 1, len(events)), behind)):
        root = fresh(f"at_{number}")
        code, _ = tries(root, number, 1)
        assert code == -signal.SIGKILL
        is_gone = KEY not in unity.tables
        assert is_gone == (number > last)
        yield root, is_gone


def assert_neighbor_is_whole(root):
    assert DeltaTable(str(root / "tables" / "orders_of_today")).to_pyarrow_table().to_pylist() == [{"id": 7}]


def test_the_retry_of_a_killed_drop_leaves_nothing_of_the_table_and_all_of_its_neighbor(tries, fresh, unity):
    kills = 0
    for root, _ in killed_at_places(tries, fresh, unity):
        code, told = tries(root, -1, 2)
        assert (code, told["outcome"]["details"]["catalog"]["dropped"]) == (0, True)
        assert (files(root / "tables" / "orders"), unity.tables) == ([], {})
        assert_neighbor_is_whole(root)
        kills += 1
    assert kills >= PLACES + 10


def test_the_retry_leaves_a_table_that_got_the_name_since(tries, fresh, unity):
    taken = 0
    for root, is_gone in killed_at_places(tries, fresh, unity, before=0):
        assert is_gone
        other = root / "tables" / "other"
        write_deltalake(str(other), pa.table({"id": [1, 2]}))
        publish_as_orders(unity, other)
        code, told = tries(root, -1, 2)
        assert (code, told["outcome"]["table"]) == (0, str(root / "tables" / "orders"))
        assert files(root / "tables" / "orders") == []
        assert unity.client.find(ORDERS).location == str(other)
        assert DeltaTable(str(other)).to_pyarrow_table().num_rows == 2
        taken += 1
    assert taken >= 10


def test_the_retry_deletes_nothing_of_a_table_that_was_made_at_the_place_since(tries, fresh, unity):
    made = 0
    for root, _ in killed_at_places(tries, fresh, unity, before=0, behind=1_000):
        place = root / "tables" / "orders"
        if files(place / "_delta_log"):
            continue
        write_deltalake(str(place), pa.table({"id": [1, 2, 3]}))
        publish_as_orders(unity, place)
        there = files(place)
        _, told = tries(root, -1, 2)
        assert told["outcome"]["error"]["code"] == "DELTA_TABLE_NOT_DELETED"
        assert (sorted(files(place)), list(unity.tables)) == (sorted(there), [KEY])
        assert DeltaTable(str(place)).to_pyarrow_table().num_rows == 3
        made += 1
    assert made >= 10
