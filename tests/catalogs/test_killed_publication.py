"""A process killed at ten places between its commit and the end of publishing: the commit stands, the next one publishes."""

import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.catalogs.catalog import publish
from airflow_delta.catalogs.entry import TableDescription, differences
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.catalogs.unity import UnityCatalog
from airflow_delta.core import DeltaLog
from tests.catalogs.unity_server import Unity, serve

ROOT = Path(__file__).parents[2]
ORDERS = TableName("orders", "sales")
PROGRAM = """
import json, os, signal, sys
from airflow_delta.catalogs.catalog import publish
from airflow_delta.catalogs.entry import TableDescription
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.catalogs.unity import UnityCatalog
from airflow_delta.core import DeltaLog
url, table, place = sys.argv[1], sys.argv[2], int(sys.argv[3])
catalog, log = UnityCatalog(url, catalog="main"), DeltaLog.for_table(table)
sent, request = [0], catalog._pool.request
def counted(*arguments, **options):
    if place == 2 * sent[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    answer = request(*arguments, **options)
    if place == 2 * sent[0] + 1:
        os.kill(os.getpid(), signal.SIGKILL)
    sent[0] += 1
    return answer
catalog._pool.request = counted
log.alter().set_properties({"round": "1"})
publish(catalog, TableName("orders", "sales"), TableDescription.of(log.refresh()))
"""


@pytest.fixture
def unity():
    unity = Unity(tokens={"": None})
    unity.url, stop = serve(unity)
    yield unity
    stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_known", "place"), [*((False, place) for place in range(6)), *((True, place) for place in range(4))]
)
def test_a_killed_publication_is_mended_by_the_next_one(unity, tmp_path, is_known, place):
    """Places are before (even) and after (odd) each request of publishing: find, create, version; find, update."""
    table = str(tmp_path / "orders")
    write_deltalake(table, pa.table({"id": [1, 2]}))
    catalog, log = UnityCatalog(unity.url, catalog="main"), DeltaLog.for_table(table)
    if is_known:
        publish(catalog, ORDERS, TableDescription.of(log.snapshot()))
    command = [sys.executable, "-c", PROGRAM, unity.url, table, str(place)]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    snapshot = log.refresh()
    assert (snapshot.version, snapshot.metadata.configuration["round"]) == (1, "1")
    publish(catalog, ORDERS, TableDescription.of(snapshot))
    assert differences(catalog.find(ORDERS), TableDescription.of(snapshot)) == ()
    assert list(unity.tables) == [("main", "sales", "orders")]
    assert DeltaTable(table).to_pyarrow_table().num_rows == 2
