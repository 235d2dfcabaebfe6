"""A PostgreSQL server for the tests, if installed: SQLite does not support parallel runs ("database is locked")."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psutil

from tests.free_port import free_port
from tests.standalone.airflow_home import wait_until


def missing() -> str | None:
    """What is missing to run PostgreSQL for Airflow; None if nothing is."""
    if _programs() is None:
        return "no PostgreSQL server (Debian: apt-get install postgresql)"
    drivers = [name for name in ("asyncpg", "psycopg2") if find_spec(name) is None]
    return f"no {' and no '.join(drivers)} (pip install asyncpg psycopg2-binary)" if drivers else None


@contextmanager
def postgres() -> Iterator[str]:
    """SQLAlchemy URL of an empty database that exists for the duration of the block."""
    programs, port = _programs(), free_port()
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
    folder = Path(tempfile.mkdtemp(prefix="airflow-delta-postgres-"))
    if user:
        shutil.chown(folder, user)
    data, log = str(folder / "data"), folder / "postgres.log"
    initdb = [programs / "initdb", "--pgdata", data, "--auth", "trust", "--username", "airflow", "--no-sync"]
    subprocess.run(initdb, user=user, cwd=folder, check=True, capture_output=True)
    settings = {
        "fsync": "off",
        # The workers that a killed scheduler leaves behind keep its connection open, and with it the lock on the pools: without
        # a time limit no other scheduler would ever queue a task again.
        "idle_in_transaction_session_timeout": "60s",
        "listen_addresses": "127.0.0.1",
        "max_connections": 200,
        "port": port,
        "unix_socket_directories": "",
    }
    arguments = [argument for name, value in settings.items() for argument in ("-c", f"{name}={value}")]
    with log.open("wb") as out:
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, *arguments], user=user, cwd=folder, stdout=out, stderr=out
        )
    try:
        wait_until(lambda: "ready to accept connections" in log.read_text(), seconds=60, what="PostgreSQL is ready", poll=0.1)
        yield f"postgresql+psycopg2://airflow@127.0.0.1:{port}/postgres"
    finally:
        children = psutil.Process(server.pid).children(recursive=True)
        server.send_signal(signal.SIGINT)  # fast shutdown: closes clients' connections at once
        server.wait(timeout=60)
        psutil.wait_procs(children, timeout=10)
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    """The folder of PostgreSQL's programs, which Debian does not put on the PATH."""
    known = [Path(found).resolve().parent] if (found := shutil.which("initdb") or shutil.which("postgres")) else []
    known += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in known if (folder / "initdb").exists()), None)
