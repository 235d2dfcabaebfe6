"""The watcher in Airflow's own triggerer, which is killed while commits come: every commit is announced."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing, contextmanager

import pytest

from airflow_delta.hooks.state_file import STATE_FOLDER
from airflow_delta.triggers.commit_event import STATE_KEY
from tests.airflow_versions import AIRFLOW
from tests.watched_table import WatchedTable

SYNC = """
import pendulum
from tests.airflow_versions import DagBag, sync_bag_to_db
from airflow.models.dagbundle import DagBundleModel
from airflow.utils.db import initdb
from airflow.utils.session import create_session

initdb()
with create_session() as session:
    session.merge(DagBundleModel(name="tests"))
bag = DagBag(dag_folder={dags!r})
assert not bag.import_errors, bag.import_errors
for _ in range(2):  # as Airflow does all the time: 3.0 makes the watcher when it has known asset and DAG before
    sync_bag_to_db(bag, "tests", None)
"""

DAG = """
from airflow.sdk import DAG, task
from airflow_delta.assets import delta_asset

with DAG("consumer", schedule=delta_asset("flights", {table!r}, watch=True, start="earliest", poll_interval=0.2),
         is_paused_upon_creation=False):
    @task
    def nothing(): ...
    nothing()
"""


class Airflow:
    """A metadata database of its own, and a triggerer that can be killed."""

    def __init__(self, home):
        self.home = home
        self.environment = os.environ | {
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }

    def python(self, text):
        subprocess.run([sys.executable, "-c", text], env=self.environment, check=True, capture_output=True)

    @contextmanager
    def triggerer(self):
        with (self.home / "triggerer.log").open("ab") as log:
            command = [sys.executable, "-m", "airflow", "triggerer", "--skip-serve-logs"]
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def rows(self, query):
        with closing(sqlite3.connect(f"file:{self.home / 'airflow.db'}?mode=ro", uri=True, timeout=30)) as database:
            return database.execute(query).fetchall()

    def events(self):
        return [json.loads(extra)["payload"] for (extra,) in self.rows("SELECT extra FROM asset_event ORDER BY id")]

    def cursor(self, table):
        if AIRFLOW >= (3, 3):
            return [json.loads(value)["version"] for (value,) in self.rows("SELECT value FROM asset_state_store")]
        files = (table.root / STATE_FOLDER).rglob("*.json")
        return [json.loads(file.read_text())["values"][STATE_KEY]["version"] for file in files]


def wait_until(condition, seconds=600):  # on a machine that has much else to do
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_no_commit_of_a_burst_is_lost_when_the_triggerer_is_killed_in_the_middle(tmp_path):
    table = WatchedTable(tmp_path / "table")
    airflow = Airflow(tmp_path / "airflow")
    (airflow.home / "dags").mkdir(parents=True)
    (airflow.home / "dags" / "consumer.py").write_text(textwrap.dedent(DAG.format(table=str(table.root))))
    airflow.python(SYNC.format(dags=str(airflow.home / "dags")))
    table.create()
    with airflow.triggerer():
        wait_until(lambda: airflow.cursor(table))
        for _ in range(10):
            table.write()
            time.sleep(0.2)
        wait_until(airflow.events)
    for _ in range(10):  # while none runs
        table.write()
    assert table.next_version == 21
    with airflow.triggerer():
        wait_until(lambda: airflow.cursor(table) == [20])
    announced = {version for event in airflow.events() for version in range(event["from_version"], event["to_version"] + 1)}
    assert announced == set(range(1, 21))
    assert not any(event["gap"] or event["reset"] for event in airflow.events())
