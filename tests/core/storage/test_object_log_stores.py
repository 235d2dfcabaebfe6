"""The stores of S3, Azure and GCS meet the contract of a LogStore, also with slashes and signs in the table's path."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from botocore.exceptions import ClientError
from fsspec.asyn import sync
from moto.s3.models import S3Backend

from airflow_delta.core.backoff import Backoff
from airflow_delta.core.errors import StorageAccessError, StorageUnavailableError
from airflow_delta.core.storage.azure_log_store import AzureLogStore
from airflow_delta.core.storage.gcs_log_store import GcsLogStore
from airflow_delta.core.storage.resolve import log_store_for
from tests.core.object_stores import AZURITE_KEY
from tests.core.storage.log_store_contract import LogStoreContract

HOUR = 3600


class TestS3LogStore(LogStoreContract):
    @pytest.fixture
    def store(self, s3):
        return log_store_for(f"{s3.uri}/lake/a table%20 #?ü", s3.options)


class TestAzureLogStore(LogStoreContract):
    @pytest.fixture
    def store(self, azure):
        return log_store_for(f"{azure.uri}/lake/a table%20 #?ü", azure.options)


class TestGcsLogStore(LogStoreContract):
    @pytest.fixture
    def store(self, gcs):
        return log_store_for(f"{gcs.uri}/lake/a table%20 #?ü", gcs.options)


def test_of_puts_that_both_look_before_either_writes_the_server_of_the_tests_accepts_one(s3, monkeypatch):
    get_object = S3Backend.get_object

    def get_object_slowly(*arguments, **named):
        found = get_object(*arguments, **named)
        time.sleep(0.2)
        return found

    def put(_):
        try:
            s3.client.put_object(Bucket=s3.bucket, Key="0.json", Body=b"{}", IfNoneMatch="*")
        except ClientError as error:
            return error.response["ResponseMetadata"]["HTTPStatusCode"]
        return 200

    monkeypatch.setattr(S3Backend, "get_object", get_object_slowly)
    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(put, range(2))) == [200, 412]


def test_a_table_may_be_a_whole_bucket(object_store):
    store = log_store_for(f"{object_store.uri}/", object_store.options)
    store.write_if_absent("_delta_log/x", b"log")
    store.write("p=1/y", b"data")
    assert sorted(file.path for file in store.list_all()) == ["_delta_log/x", "p=1/y"]
    assert [file.path for file in store.list_from("_delta_log")] == ["_delta_log/x"]
    filesystem, root = store.data_filesystem()
    assert filesystem.open_input_file(f"{root}/p=1/y").read() == b"data"


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def gcs_store(gcs, pauses):
    backoff = Backoff(tries=3, first=1.0, sleep=pauses.append, jitter=lambda: 1.0)
    store = GcsLogStore(f"{gcs.uri}/table", gcs.options, creates=backoff)
    store.write_if_absent("_delta_log/first", b"1")
    gcs.client.listings.clear()
    return store


def test_gcs_gives_the_time_of_the_content_and_not_that_at_which_a_lifecycle_rule_changed_the_storage_class(gcs_store, gcs):
    before = gcs_store.status("_delta_log/first")
    gcs.client.days_to_transition = 40
    assert gcs_store.status("_delta_log/first") == before
    assert abs(before.modification_time / 1000 - time.time()) < HOUR


def test_gcs_puts_off_a_create_and_the_store_sends_it_again(gcs_store, gcs, pauses):
    gcs.client.faults[:] = [409, 409]
    gcs_store.write_if_absent("_delta_log/x", b"mine")
    assert gcs_store.read("_delta_log/x") == b"mine"
    assert pauses == [1.0, 2.0]


@pytest.mark.parametrize(("status", "error"), [(412, FileExistsError), (403, StorageAccessError), (401, StorageAccessError)])
def test_gcs_refuses_a_create(gcs_store, gcs, status, error):
    gcs.client.faults[:] = [status]
    with pytest.raises(error):
        gcs_store.write_if_absent("_delta_log/x", b"mine")
    assert not gcs_store.exists("_delta_log/x")


def test_gcs_is_asked_for_no_name_before_the_start(gcs_store, gcs):
    for version in range(4):
        gcs_store.write(f"_delta_log/{version:020d}.json", b"x")
    assert [file.path for file in gcs_store.list_from("_delta_log", f"{3:020d}")] == [
        f"_delta_log/{3:020d}.json",
        "_delta_log/first",
    ]
    [query] = gcs.client.listings
    assert query["startOffset"] == f"table/_delta_log/{3:020d}"
    assert query["delimiter"] == "/"


def test_azure_is_asked_for_no_name_before_the_start(azure):
    store = log_store_for(f"{azure.uri}/table", azure.options)
    for version in range(4):
        store.write(f"_delta_log/{version:020d}.json", b"x")
    page = sync(store._filesystem.loop, partial(store._page, nested=False, rest=None), "table/_delta_log/", f"{3:020d}")
    assert [key for key, *_ in page.objects] == [f"table/_delta_log/{3:020d}.json"]
    assert page.rest is None


def test_azure_does_not_take_directories_for_files(azure):
    """Stores with directories list them as blobs that say so."""
    store = log_store_for(f"{azure.uri}/table", azure.options)
    container = azure.client.get_container_client(azure.bucket)
    container.upload_blob("table/p=1", b"", metadata={"hdi_isfolder": "true"})
    store.write("p=1/x", b"x")
    assert [file.path for file in store.list_all()] == ["p=1/x"]
    assert list(store.list_from("")) == []


def test_listings_and_reads_name_versions_alike_and_another_content_has_another_one(object_store):
    store, path = log_store_for(f"{object_store.uri}/table", object_store.options), "_delta_log/x"
    versions = []
    for content in (b"content", b"CONTENT"):
        store.write(path, content)
        [listed] = store.list_from("_delta_log")
        assert store.fetch(path).version == store.fetch_end(path).version == listed.version == store.status(path).version
        assert store.fetch_range(path, 1, 3, listed.version) == content[1:4]
        versions.append(listed.version)
    assert len({"", *versions}) == 3


class _Unavailable(BaseHTTPRequestHandler):
    """A service that answers each request with 503."""

    def do_GET(self):
        self.server.requests += 1
        self.send_error(503)

    do_HEAD = do_GET  # noqa: N815 - the base class calls it so

    def log_message(self, *_):
        pass


@pytest.fixture
def unavailable():
    with ThreadingHTTPServer(("127.0.0.1", 0), _Unavailable) as server:
        server.requests = 0
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize(
    ("made", "uri", "options"),
    [
        (GcsLogStore, "gs://bucket/table", {"token": "anon", "endpoint_url": "{}"}),
        (AzureLogStore, "az://c/table", {"connection_string": f"AccountName=a;AccountKey={AZURITE_KEY};BlobEndpoint={{}}/a"}),
    ],
)
@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.read("x"),
        lambda store: store.exists("x"),
        lambda store: store.open_input("x"),
        lambda store: store.fetch_range("x", 0, 1, '"1"'),
        lambda store: list(store.list_from("_delta_log")),
        lambda store: list(store.list_all()),
    ],
    ids=["read", "exists", "open_input", "fetch_range", "list_from", "list_all"],
)
def test_a_read_without_an_answer_is_repeated_by_the_store_and_not_by_the_package_as_well(
    unavailable, pauses, made, uri, options, read
):
    endpoint = f"http://127.0.0.1:{unavailable.server_address[1]}"
    options = {name: value.format(endpoint) for name, value in options.items()}
    backoff = Backoff(tries=3, first=1.0, sleep=pauses.append, jitter=lambda: 1.0)
    with pytest.raises(StorageUnavailableError, match="503"):
        read(made(uri, options, reads=backoff))
    assert unavailable.requests == 3
    assert pauses == [1.0, 2.0]
