"""Secrets are found nowhere but where they are needed: every place that others can read is searched for planted ones."""

import base64
import json
import os
import re
import secrets
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.conftest import AIRFLOW_HOME
from tests.core.object_stores import azure, azurite, moto_server, s3  # noqa: F401 - fixtures
from tests.free_port import free_port

PUT_IF_ABSENT = {"aws_conditional_put": "etag"}
PROJECT = Path(__file__).parents[2]


def planted(name):
    return f"{name}{secrets.token_hex(12)}"


class Onlooker(threading.Thread):
    """Notes what the machine shows to everybody: the arguments of processes, and the pages of Spark's UI."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.ui = f"http://127.0.0.1:{port}"
        self.arguments, self.pages, self.over = set(), {}, threading.Event()

    def run(self):
        while not self.over.wait(0.1):
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    self.arguments.add((process / "cmdline").read_text(errors="replace"))
            with suppress(OSError, ValueError, IndexError):
                self.look()

    def look(self):
        with urlopen(f"{self.ui}/api/v1/applications", timeout=1) as answer:
            application = json.load(answer)[0]["id"]
        rest = f"/api/v1/applications/{application}"
        for page in (f"{rest}/environment", f"{rest}/jobs", f"{rest}/sql", f"{rest}/allexecutors", "/environment/", "/SQL/"):
            with suppress(OSError), urlopen(f"{self.ui}{page}", timeout=2) as answer:
                self.pages[application, page] = answer.read().decode()


def texts_of(folder):
    return "\n".join(file.read_text(errors="replace") for file in Path(folder).rglob("*") if file.is_file())


def rows_of_database():
    with sqlite3.connect(f"file:{AIRFLOW_HOME}/airflow.db?mode=ro", uri=True) as connection:
        connection.text_factory = lambda content: content.decode(errors="replace")
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return "\n".join(f"{table}: {row}" for table in tables for row in connection.execute(f"SELECT * FROM {table}"))


def objects_of(store):
    listed = store.client.list_objects_v2(Bucket=store.bucket)["Contents"]
    bodies = {item["Key"]: store.client.get_object(Bucket=store.bucket, Key=item["Key"])["Body"].read() for item in listed}
    return "\n".join(f"{key}: {body.decode(errors='replace')}" for key, body in bodies.items())


@pytest.mark.slow
def test_planted_secrets_are_found_nowhere(s3, azure, airflow_database, tmp_path):  # noqa: F811 - fixtures
    hidden = {name: planted(name) for name in ("login", "password", "token", "sas", "variable", "setting", "userinfo")}
    hidden |= {name: planted(name) for name in ("signature", "option")}
    hidden["account_key"] = base64.b64encode(secrets.token_bytes(48)).decode()
    hidden["connection_string_key"] = base64.b64encode(secrets.token_bytes(48)).decode()
    blob_endpoint = re.search("BlobEndpoint=([^;]+)", azure.options["connection_string"])[1]
    amazon = {"aws_session_token": hidden["token"], "endpoint_url": s3.options["endpoint_url"], "region_name": "us-east-1"}
    microsoft = {
        "connection_string": (
            f"AccountName=devstoreaccount1;AccountKey={hidden['connection_string_key']};BlobEndpoint={blob_endpoint}"
        ),
        "account_key": hidden["account_key"],
        "sas_token": f"sv=2024&sig={hidden['sas']}",
    }
    unseen = {"scratch_uri": str(tmp_path / "scratch"), "workers_see_tables": False}
    connections = {
        "aws": {"conn_type": "aws", "login": hidden["login"], "password": hidden["password"], "extra": amazon},
        "wasb": {"conn_type": "wasb", "extra": microsoft},
        "lake": {"conn_type": "delta", "host": s3.uri, "extra": {"storage_conn_id": "aws", **unseen}},
        "seen_lake": {"conn_type": "delta", "host": s3.uri, "extra": {"storage_conn_id": "aws"}},
        "blobs": {"conn_type": "delta", "host": azure.uri, "extra": {"storage_conn_id": "wasb", **unseen}},
        "seen_blobs": {"conn_type": "delta", "host": azure.uri, "extra": {"storage_conn_id": "wasb"}},
    }
    for number in range(2):
        rows = pa.table({"id": pa.array([number], pa.int64())})
        write_deltalake(f"{s3.uri}/flights", rows, mode="append", storage_options=s3.other_options | PUT_IF_ABSENT)
    port = free_port()
    (tmp_path / "events").mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file:{tmp_path}/events",
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
    }
    environment = {
        **os.environ,
        **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(fields) for name, fields in connections.items()},
        **{f"AIRFLOW_VAR_{name.upper()}": hidden[name] for name in ("variable", "setting", "userinfo", "signature", "option")},
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",  # below it, dag.test itself prints what is to be masked
    }
    onlooker = Onlooker(port)
    onlooker.start()
    run = subprocess.run(
        [sys.executable, "-m", "tests.hooks.secret_tasks", json.dumps({"conf": conf})],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    onlooker.over.set()
    onlooker.join()

    states = json.loads(re.search("^states: (.+)$", run.stdout, re.MULTILINE)[1])
    assert states == {task: "success" if task.endswith("_ok") else "failed" for task in states}, run.stdout
    assert len(states) == 8
    # Each place, and what shows that it was really looked at.
    places = {
        "task logs": (run.stdout, "DELTA_STORAGE_ACCESS"),
        "metadata database": (rows_of_database(), "setting_refused"),
        "arguments of processes": ("\n".join(onlooker.arguments), "--spec"),
        "Spark's UI": (json.dumps(list(onlooker.pages.items())), "spark.eventLog.dir"),
        "Spark's event log": (texts_of(tmp_path / "events"), "SparkListenerEnvironmentUpdate"),
        "scratch": (texts_of(tmp_path / "scratch"), "DELTA_STORAGE_ACCESS"),
        "table": (objects_of(s3), "commitInfo"),
        "Airflow's home": (texts_of(AIRFLOW_HOME), ""),
    }
    for place, (text, sign) in places.items():
        assert sign in text, place
    leaks = [
        f"{name} in {place}: {text[max(0, text.index(form) - 300) : text.index(form) + 100]}"
        for place, (text, _) in places.items()
        for name, secret in hidden.items()
        for form in dict.fromkeys((secret, quote(secret, safe="")))
        if form in text
    ]
    assert not leaks, "\n\n".join(leaks)
