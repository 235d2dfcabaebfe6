"""Opening a large table on a slow object store: without the cache on disk, with an empty one, and in the next process.

    python -m benchmarks.disk_cache [--files 1000000] [--wait 0.03] [--rounds 3]

The store is moto's S3 server in a process of its own, which waits before each response to simulate network latency. Each
opening is a fresh process that reads path, size and row count of every live file. Imports are not timed; making the S3 client
is.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from airflow_delta.core.storage.ambient_cache import BYTES_VARIABLE, FOLDER_VARIABLE
from airflow_delta.core.storage.ambient_options import VARIABLE
from benchmarks.log_core.case import Size
from benchmarks.log_core.tables import large_table

LIMIT = 0.2
"""The most that the second opening with the cache may take, as a share of the first one."""

_BUCKET = "benchmark"
_KEYS = {"key": "test", "secret": "test"}
_REQUESTS = "/-requests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What one opening took."""

    seconds: float
    cpu: float
    requests: int
    answer: list[int]


class SlowServer:
    """A WSGI application that delays another one, and counts its requests."""

    def __init__(self, application: Callable[..., Iterable[bytes]], wait: float) -> None:
        self._application = application
        self._wait = wait
        self._lock = threading.Lock()
        self._requests = 0

    def __call__(self, environment: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """The other application's response; at a path of our own, the number of requests since that path was last requested."""
        with self._lock:
            if environment["PATH_INFO"] == _REQUESTS:
                count, self._requests = self._requests, 0
                start_response("200 OK", [("Content-Type", "text/plain")])
                return [str(count).encode()]
            self._requests += 1
        time.sleep(self._wait)
        return self._application(environment, start_response)


def serve(wait: float) -> None:
    """Print the store's port, then run the store until this process is killed."""
    from moto.server import DomainDispatcherApplication, create_backend_app  # noqa: PLC0415 - only this process needs it
    from werkzeug.serving import WSGIRequestHandler, make_server  # noqa: PLC0415 - the same

    WSGIRequestHandler.log_request = lambda *_arguments: None  # type: ignore[method-assign]
    WSGIRequestHandler.protocol_version = "HTTP/1.1"
    server = make_server("127.0.0.1", 0, SlowServer(DomainDispatcherApplication(create_backend_app), wait), threaded=True)
    print(server.port, flush=True)
    server.serve_forever()


@contextmanager
def running_store(wait: float) -> Iterator[str]:
    """The URL of a store with an empty bucket."""
    command = [sys.executable, "-m", "benchmarks.disk_cache", "--serve", "--wait", str(wait)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            endpoint = f"http://127.0.0.1:{int(process.stdout.readline())}"
            _client(endpoint).create_bucket(Bucket=_BUCKET)
            yield endpoint
        finally:
            process.kill()


def upload(endpoint: str, table: Path) -> str:
    """Upload the log of a local table to the bucket; returns the table's URI there."""
    client = _client(endpoint)
    for file in sorted((table / "_delta_log").iterdir()):
        if file.is_file():
            client.upload_file(str(file), _BUCKET, f"table/_delta_log/{file.name}")
    return f"s3://{_BUCKET}/table"


def opening(endpoint: str, uri: str, cache: Path | None) -> Opening:
    """Open the table in a fresh process."""
    environment = {name: value for name, value in os.environ.items() if name not in (FOLDER_VARIABLE, BYTES_VARIABLE)}
    environment[VARIABLE] = json.dumps({"s3": {**_KEYS, "endpoint_url": endpoint}})
    if cache is not None:
        environment[FOLDER_VARIABLE] = str(cache)
    _requests(endpoint)
    command = [sys.executable, "-m", "benchmarks.disk_cache", "--open", uri]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    found = json.loads(done.stdout)
    return Opening(seconds=found["seconds"], cpu=found["cpu"], answer=found["answer"], requests=_requests(endpoint))


def open_here(uri: str) -> None:
    """Open the table, and print what it took as JSON."""
    import s3fs  # noqa: F401, PLC0415 - else it is loaded when the clock runs

    from benchmarks.log_core.reading_ours import open_table  # noqa: PLC0415 - only this process needs it

    work = open_table(uri)
    started, cpu = time.perf_counter(), time.process_time()
    answer = work()
    print(json.dumps({"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu, "answer": answer}))


def run(files: int, wait: float, rounds: int) -> int:
    """Measure and print; 1 when the second opening takes too long, sends too many requests, or finds something else."""
    with tempfile.TemporaryDirectory(prefix="benchmark-cache-") as folder, running_store(wait) as endpoint:
        uri = upload(endpoint, large_table(Path(folder), Size(files=files, commits=1)))
        found: dict[str, list[Opening]] = {"without a cache": [], "an empty cache": [], "the next process": []}
        for number in range(rounds):
            cache = Path(folder) / f"cache-{number}"
            for name, place in zip(found, (None, cache, cache), strict=True):
                found[name].append(opening(endpoint, uri, place))
    print(f"{files} files, {wait * 1000:.0f} ms before each answer, medians of {rounds}, {os.cpu_count()} cores")
    medians = {name: statistics.median(opened.seconds for opened in openings) for name, openings in found.items()}
    for name, openings in found.items():
        cpu = statistics.median(opened.cpu for opened in openings)
        print(f"{name:<18} {medians[name]:7.2f} s  {cpu:7.2f} s of CPU  {openings[0].requests:5d} requests")
    ratio = medians["the next process"] / medians["an empty cache"]
    is_same = len({tuple(opened.answer) for openings in found.values() for opened in openings}) == 1
    print(f"the next process takes {ratio:.2f} of the first (limit {LIMIT}){'' if is_same else '; the answers DIFFER'}")
    return int(ratio > LIMIT or not is_same)


def _client(endpoint: str) -> Any:
    keys = {"aws_access_key_id": _KEYS["key"], "aws_secret_access_key": _KEYS["secret"]}
    return boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)


def _requests(endpoint: str) -> int:
    with urllib.request.urlopen(endpoint + _REQUESTS) as answer:
        return int(answer.read())


def main(arguments: list[str] | None = None) -> int:
    """Measure; or, in a child process, run the store or one opening."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--wait", type=float, default=0.03, help="seconds before each answer of the store")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--open", metavar="URI", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve(options.wait)
    elif options.open:
        open_here(options.open)
    else:
        return run(options.files, options.wait, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
