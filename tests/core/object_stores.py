"""Object stores on this machine: moto's S3 server, azurite, and our own GCS emulator, each with a new bucket per test."""

import itertools
import json
import re
import shutil
import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import boto3
import pytest
from azure.storage.blob import BlobServiceClient
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer

from tests.free_port import free_port

PROJECT = Path(__file__).parents[2]
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # published

_STARTED = datetime.now(UTC)
_numbers = itertools.count()


@dataclass(frozen=True)
class ObjectStore:
    """A bucket for one test.

    ``options`` are our storage options, ``other_options`` those of deltalake.
    """

    uri: str
    options: dict[str, Any]
    other_options: dict[str, str] = field(default_factory=dict)
    client: Any = None

    @property
    def bucket(self):
        return self.uri.partition("://")[2]


@contextmanager
def one_put_at_a_time():
    """Makes ``If-None-Match`` as binding in moto as it is in S3.

    moto looks for the object and writes it in two steps, so that two puts at the same moment could both succeed.
    """
    put_object, lock = S3Response.put_object, threading.Lock()

    def put_object_alone(response):
        with lock:
            return put_object(response)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(S3Response, "put_object", put_object_alone)
        yield


@pytest.fixture(scope="session")
def moto_server():
    """The URL of an S3 server in this process."""
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    with one_put_at_a_time():
        server.start()
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
        server.stop()


def s3_bucket(endpoint):
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    bucket = f"bucket-{next(_numbers)}"
    client.create_bucket(Bucket=bucket)
    return ObjectStore(
        uri=f"s3://{bucket}",
        options={"key": "test", "secret": "test", "endpoint_url": endpoint},
        other_options={
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        },
        client=client,
    )


@pytest.fixture
def s3(moto_server):
    return s3_bucket(moto_server)


@pytest.fixture(scope="session")
def azurite():
    """The port of an Azure Blob Storage emulator."""
    program = PROJECT / ".venv" / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    if not program.exists() or not shutil.which("node"):
        pytest.skip("azurite is not installed: .ci/setup installs it where there is npm")
    port = free_port()
    command = [str(program), "--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--blobPort", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with socket.socket() as connection:
                if connection.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield port
        process.kill()  # a graceful stop would wait for connections that we keep open


@pytest.fixture
def azure(azurite):
    endpoint = f"http://127.0.0.1:{azurite}/devstoreaccount1"
    connection = f"AccountName=devstoreaccount1;AccountKey={AZURITE_KEY};BlobEndpoint={endpoint};DefaultEndpointsProtocol=http;"
    client = BlobServiceClient.from_connection_string(connection)
    container = f"container-{next(_numbers)}"
    client.create_container(container)
    return ObjectStore(
        uri=f"az://{container}",
        options={"connection_string": connection},
        other_options={
            "AZURE_STORAGE_ACCOUNT_NAME": "devstoreaccount1",
            "AZURE_STORAGE_ACCOUNT_KEY": AZURITE_KEY,
            "AZURE_STORAGE_ENDPOINT": endpoint,
            "allow_http": "true",
        },
        client=client,
    )


class GcsHandler(BaseHTTPRequestHandler):
    """The part of Google's JSON API that a log uses, on ``server.objects``: bucket -> name -> (content, generation)."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        bucket, name, query = self.parsed()
        objects = self.server.objects.get(bucket)
        if objects is None:
            return self.answer(404)
        if name is None:
            return self.list(objects, query)
        if name not in objects:
            return self.answer(404)
        content, generation = objects[name]
        if query.get("generation", str(generation)) != str(generation):
            return self.answer(404)
        if query.get("alt") != "media":
            return self.answer(200, self.described(name, *objects[name]))
        start, end = self.range(len(content))
        if start >= len(content) > 0 or (not content and "Range" in self.headers):
            return self.answer(416)
        headers = {"X-Goog-Generation": str(generation)}
        if "Range" in self.headers:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
        return self.answer(206 if "Range" in self.headers else 200, content[start:end], headers)

    def do_POST(self):
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        bucket, _, query = self.parsed()
        if self.server.faults:
            return self.answer(self.server.faults.pop(0))
        if query["uploadType"] == "resumable" and "Content-Range" not in self.headers:  # gcsfs: the content follows
            return self.answer(200, {}, {"Location": f"http://{self.headers['Host']}{self.path}"})
        with self.server.lock:
            objects = self.server.objects.get(bucket)
            if objects is None:
                return self.answer(404)
            if query.get("ifGenerationMatch") == "0" and query["name"] in objects:
                return self.answer(412)
            objects[query["name"]] = content, next(_numbers)
            return self.answer(200, self.described(query["name"], *objects[query["name"]]))

    def do_DELETE(self):
        bucket, name, _ = self.parsed()
        self.answer(204 if self.server.objects.get(bucket, {}).pop(name, None) else 404)

    def list(self, objects, query):
        self.server.listings.append(query)
        delimiter, prefix = query.get("delimiter"), query.get("prefix", "")
        names = [
            name
            for name in sorted(objects)
            if name.startswith(prefix)
            and name >= query.get("startOffset", "")
            and not (delimiter and delimiter in name[len(prefix) :])
            and name > query.get("pageToken", "")
        ]
        page = names[: self.server.page_size]
        answer = {"kind": "storage#objects", "items": [self.described(name, *objects[name]) for name in page]}
        return self.answer(200, answer | ({"nextPageToken": page[-1]} if len(names) > len(page) else {}))

    def described(self, name, content, generation):
        created = _STARTED + timedelta(milliseconds=generation)
        updated = created + timedelta(days=self.server.days_to_transition)
        return {
            "name": name,
            "size": str(len(content)),
            "timeCreated": f"{created:%Y-%m-%dT%H:%M:%S.%fZ}",
            "updated": f"{updated:%Y-%m-%dT%H:%M:%S.%fZ}",
            "generation": generation,
        }

    def range(self, size):
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "bytes=0-"))
        first, last = match.groups()
        if not first:
            return max(size - int(last), 0), size
        return int(first), min(int(last) + 1, size) if last else size

    def parsed(self):
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
        match = re.fullmatch(r"(?:/upload|/download)?/storage/v1/b/([^/]+)/o(?:/(.+))?", url.path)
        bucket, name = match.groups()
        return unquote(bucket), name and unquote(name), query

    def answer(self, status, content=b"", headers=()):
        body = json.dumps(content).encode() if isinstance(content, dict) else content
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def gcs_server():
    """A GCS emulator in this process: ``faults`` are the status codes for the next uploads."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), GcsHandler)
    server.objects, server.faults, server.listings, server.lock, server.page_size = {}, [], [], threading.Lock(), 3
    server.days_to_transition = 0
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def gcs(gcs_server):
    bucket = f"bucket-{next(_numbers)}"
    gcs_server.objects[bucket] = {}
    gcs_server.faults.clear()
    gcs_server.listings.clear()
    endpoint = f"http://127.0.0.1:{gcs_server.server_address[1]}"
    # An option unknown to Arrow makes data files go through gcsfs, too: Arrow's client blocks a server in its own process.
    options = {"token": "anon", "endpoint_url": endpoint, "requests_timeout": 60}
    return ObjectStore(uri=f"gs://{bucket}", options=options, client=gcs_server)


@pytest.fixture(params=["s3", "azure", "gcs"])
def object_store(request):
    """Each of the object stores in turn."""
    return request.getfixturevalue(request.param)
