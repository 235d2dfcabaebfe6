"""Spark jobs on a table whose storage takes keys of seconds alone: the driver and each worker ask for their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.actions import ADD_FILE
from tests.catalogs.guarded_s3 import guarded_s3
from tests.catalogs.managed_unity import managed_unity
from tests.core.managed.conftest import WRITE

PROJECT = Path(__file__).parents[3]
FILES = 16
ROWS = 10

# Every process of Python takes this up when it starts: keys of seconds have to be renewed sooner than others.
SITE = """
import airflow_delta.catalogs.vended_credentials as vended
vended.LEAST_PAUSE = 200
"""

# What it sends to its workers is kept, to be searched.
JOB = """
import json, os, sys
from pathlib import Path
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession
from airflow_delta.spark import DeltaTable

order, pickled = json.loads(sys.argv[1]), CloudPickleSerializer.dumps
sent = Path(order["sent"])

def kept(self, value):
    content = pickled(self, value)
    (sent / f"{len(list(sent.iterdir()))}.pickle").write_bytes(content)
    return content

CloudPickleSerializer.dumps = kept
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for name, value in order["conf"].items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
if order["without"]:  # the JVM has started: the workers have its environment
    os.environ["AIRFLOW_DELTA_CATALOG"] = order["without"]
table = DeltaTable.forName(spark, "sales.orders")
if order["update"]:
    table.update(set={"note": "'new'"})
print(json.dumps(table.toDF().selectExpr("count(*)", "count_if(note = 'new')").collect()[0]))
"""


@pytest.fixture
def unity():
    with managed_unity() as unity:
        yield unity


@pytest.fixture
def s3(unity):
    with guarded_s3() as s3:
        unity.names.vend = s3.vend
        yield s3


@pytest.fixture
def orders(unity, s3):
    """Rows in many files, which somebody with a key of their own has written."""
    owner = {"key": "test", "secret": "test", "endpoint_url": s3.endpoint}
    table = unity.make("orders", "s3://lake/orders", options=owner)
    address = {"endpoint_override": s3.endpoint.removeprefix("http://"), "scheme": "http", "region": "us-east-1"}
    filesystem = pafs.S3FileSystem(access_key="test", secret_key="test", **address)
    rows = {"partition_values": [], "modification_time": 1, "data_change": True, "stats": json.dumps({"numRecords": ROWS})}
    files = []
    for number in range(FILES):
        path, ids = f"lake/orders/{number}.parquet", range(number * ROWS, (number + 1) * ROWS)
        pq.write_table(pa.table({"id": ids, "note": ["old"] * ROWS}), path, filesystem=filesystem)
        files.append({"path": f"{number}.parquet", "size": filesystem.get_file_info(path).size, **rows})
    table.log().start_transaction().commit(adds=pa.Table.from_pylist(files, schema=ADD_FILE), operation=WRITE)
    return table


def run(unity, s3, tmp_path, *, update, is_known_to_workers=True):
    """What the job printed, what it sent to its workers, and what it left in Spark's event log and its output."""
    folders = {name: tmp_path / name for name in ("sent", "events", "site")}
    for folder in folders.values():
        folder.mkdir()
    (folders["site"] / "sitecustomize.py").write_text(SITE)
    [(variable, catalog)] = unity.environment(vends_credentials=True).items()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {"PYTHONPATH": os.pathsep.join([str(folders["site"]), str(PROJECT)]), "AWS_EC2_METADATA_DISABLED": "true"}
    environment |= {"AIRFLOW_DELTA_STORAGE_OPTIONS": json.dumps({"s3": {"endpoint_url": s3.endpoint}})}
    environment |= {variable: catalog} if is_known_to_workers else {}
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folders["events"].as_uri(),
        "spark.eventLog.compress": "false",
    }
    order = {"sent": str(folders["sent"]), "conf": conf, "update": update, "without": "" if is_known_to_workers else catalog}
    command = [sys.executable, "-c", JOB, json.dumps(order)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    pickled = [content for name, content in found.items() if name.endswith(".pickle")]
    assert len(pickled) > 1
    events = b"".join(content for name, content in found.items() if str(folders["events"]) in name)
    assert b"SparkListenerTaskEnd" in events
    return json.loads(done.stdout.splitlines()[-1]), pickled, [events, done.stdout.encode(), done.stderr.encode()]


def longest_task(events):
    """Milliseconds."""
    tasks = [json.loads(line) for line in events.splitlines() if b"SparkListenerTaskEnd" in line]
    return max(task["Task Metrics"]["Executor Run Time"] for task in tasks)


def shown(secrets, contents):
    return sorted({secret for secret in secrets for content in contents if secret.encode() in content})


@pytest.mark.slow
def test_a_task_of_many_files_takes_longer_than_the_keys_live_and_none_travels_or_is_shown(unity, s3, orders, tmp_path):
    s3.lifetime, s3.delay = 8_000, 0.25  # a file takes some seconds, and is opened with half of a key's time left
    answer, pickled, others = run(unity, s3, tmp_path, update=True)
    assert answer == [FILES * ROWS, FILES * ROWS]
    assert s3.refused == 0
    assert longest_task(others[0]) > s3.lifetime
    assert len(s3.keys) > 4
    assert shown([*s3.secrets, unity.server.token], [*pickled, *others]) == []
    assert {row["note"] for row in orders.rows()} == {"new"}


@pytest.mark.slow
def test_workers_without_a_catalog_get_the_keys_that_hold_with_each_task_as_other_options(unity, s3, orders, tmp_path):
    answer, pickled, others = run(unity, s3, tmp_path, update=False, is_known_to_workers=False)
    assert answer == [FILES * ROWS, 0]
    assert (s3.refused, len(s3.keys)) == (0, 1)
    assert shown([unity.server.token], pickled) == []
    assert len(shown(s3.secrets, pickled)) == 3
    assert shown([*s3.secrets, unity.server.token], others) == []
