"""Transient storage failures are not mistaken for damaged files."""

import errno
import io
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.backoff import Backoff
from airflow_delta.core.data_files import ROW_INDEX, open_data_file
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    CorruptDataFileError,
    CredentialsExpiredError,
    MissingDataFileError,
    StorageAccessError,
    StorageUnavailableError,
)
from airflow_delta.core.schema import parse_schema
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.storage.log_store_filesystem import log_store_filesystem
from tests.core.faulty_proxy import Fault, faulty_proxy, s3_error

SCHEMA_STRING = '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}'
SCHEMA = parse_schema(SCHEMA_STRING)
AT_ONCE = Backoff(tries=3, sleep=lambda _: None)
ROWS = 10_000

# Error texts of pyarrow 25 for service responses.
BUSY = [
    "When reading information for key 'k': AWS Error UNKNOWN (HTTP status 503) during HeadObject operation: No response body.",
    "AWS Error SERVICE_UNAVAILABLE during GetObject operation: ",
    "AWS Error SLOW_DOWN during GetObject operation: Please reduce your request rate.",
    "AWS Error INTERNAL_FAILURE during GetObject operation: no",
    "AWS Error UNKNOWN (HTTP status 429) during GetObject operation: Unable to parse ExceptionName: TooManyRequests",
    "AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 52, Server returned nothing (no headers, no data)",
    "AWS Error REQUEST_TIMEOUT during GetObject operation: no",
    "google::cloud::Status(UNAVAILABLE: Retry policy exhausted in ReadObject)",
    "Failed to read. Azure Error: [ServerBusy] 503 The server is busy.",
]
REFUSED = [
    "AWS Error ACCESS_DENIED during GetObject operation: no",
    "AWS Error NO_SUCH_BUCKET during GetObject operation: no",
    "AWS Error UNKNOWN (HTTP status 400) during GetObject operation: Unable to parse ExceptionName: InvalidBucketName",
    "google::cloud::Status(PERMISSION_DENIED: no)",
    "google::cloud::Status(UNAVAILABLE: Retry policy exhausted, with a last message of Could not create a OAuth2 access token",
    "Unknown error: Check for Hierarchical Namespace support failed: Failed to get token from DefaultAzureCredential.",
    "Failed to read. Azure Error: [AuthorizationFailure] 403 This request is not authorized.",
]
EXPIRED = [
    "AWS Error UNKNOWN (HTTP status 400) during GetObject operation: Unable to parse ExceptionName: ExpiredToken",
    "AWS Error UNKNOWN (HTTP status 400) during GetObject operation: ",
    "When reading information for key 'k': AWS Error UNKNOWN (HTTP status 400) during HeadObject operation: No response body.",
]
ABSENT = ["AWS Error NO_SUCH_KEY during GetObject operation: no", "google::cloud::Status(NOT_FOUND: no)"]


class Weather(io.BytesIO):
    """A file that fails at some of its reads."""

    def __init__(self, content, failures):
        super().__init__(content)
        self._failures = failures

    def read(self, size=-1, /):
        error = next(self._failures)
        if error is not None:
            raise error
        return super().read(size)


class WeatherStore(InMemoryLogStore):
    """A store of which the reads fail as the iterator says."""

    failures = iter(())

    def open_input(self, path):
        return Weather(self.read(path), self.failures)


@pytest.fixture
def store():
    store = WeatherStore()
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": range(ROWS)}), sink, row_group_size=1_000, compression="none", use_dictionary=False)
    store.write("f.parquet", sink.getvalue().to_pybytes())
    return store


def read(store, path="f.parquet", **options):
    options = {"batch_rows": 1_000, "backoff": AT_ONCE, "table": "t"} | options
    return list(open_data_file(log_store_filesystem(store), path, SCHEMA, {}, **options))


def failing(error, at):
    """An iterator with errors at the reads with these numbers."""
    numbers = iter(range(1 << 30))
    return iter(lambda: error if next(numbers) in at else None, object())


@pytest.mark.parametrize(
    ("texts", "kind", "retryable"),
    [
        (BUSY, StorageUnavailableError, True),
        (REFUSED, StorageAccessError, False),
        (EXPIRED, CredentialsExpiredError, True),
        (ABSENT, MissingDataFileError, False),
    ],
)
def test_answers_of_a_service_are_distinguished_from_the_content_of_a_file(store, texts, kind, retryable):
    for text in texts:
        store.failures = failing(pa.ArrowException(text) if text.startswith("Unknown error") else OSError(text), range(1 << 20))
        with pytest.raises(kind) as caught:
            read(store)
        assert (type(caught.value), caught.value.retryable, "f.parquet" in str(caught.value)) == (kind, retryable, True)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ECONNRESET])
def test_a_mount_that_does_not_answer_is_weather_too(store, number):
    store.failures = failing(OSError(number, os.strerror(number)), range(1 << 20))
    with pytest.raises(StorageUnavailableError):
        read(store)


def test_a_file_of_other_content_is_corrupt_and_is_read_once(store):
    store.write("f.parquet", b"PAR1" + bytes(1_000) + b"PAR1")
    store.failures = failing(None, [])
    with pytest.raises(CorruptDataFileError) as caught:
        read(store, backoff=Backoff(sleep=pytest.fail))
    assert (type(caught.value), caught.value.retryable) == (CorruptDataFileError, False)


@pytest.mark.parametrize("at", [[0], [1], [5], [9], [3, 9], [2, 4]], ids=str)
def test_a_read_goes_on_where_the_storage_stopped_answering(store, at):
    store.failures = failing(OSError(BUSY[0]), at)
    rows = pa.Table.from_batches(read(store, with_row_index=True))
    assert rows["n"].to_pylist() == rows[ROW_INDEX].to_pylist() == list(range(ROWS))


def commit_of(*actions):
    """A commit file; the first of a table with the column ``n``."""
    head = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}]
    head.append({"metaData": {"id": "m", "schemaString": SCHEMA_STRING, "partitionColumns": []}})
    return "".join(json.dumps(action) + "\n" for action in (*head, *actions)).encode()


def test_a_checkpoint_that_the_storage_does_not_serve_is_not_corrupt():
    store = WeatherStore("memory://weather")
    store.write("_delta_log/00000000000000000000.json", commit_of())
    store.write("_delta_log/00000000000000000001.json", b'{"commitInfo":{}}')
    store.failures = failing(None, [])
    DeltaLog(store).checkpoint()
    store.delete(["_delta_log/00000000000000000000.json"])
    log = DeltaLog(store)
    store.failures = failing(OSError(BUSY[0]), range(1 << 20))
    with pytest.raises(StorageUnavailableError):
        log.snapshot()
    store.failures = failing(None, [])
    assert log.snapshot().version == 1


@pytest.fixture
def far_table(s3):
    """A table on S3 behind a proxy, with one data file."""
    with faulty_proxy(s3.options["endpoint_url"]) as proxy:
        log = DeltaLog.for_table(f"{s3.uri}/t", storage_options={**s3.options, "endpoint_url": proxy.url})
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"n": [1, 2, 3]}), sink)
        content = sink.getvalue()
        log.store.write("f.parquet", content.to_pybytes())
        file = {"path": "f.parquet", "partitionValues": {}, "size": content.size, "modificationTime": 1, "dataChange": True}
        log.store.write("_delta_log/00000000000000000000.json", commit_of({"add": file}))
        yield log, proxy


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(s3_error(403, "AccessDenied"), StorageAccessError), (s3_error(400, "ExpiredToken"), CredentialsExpiredError)],
)
def test_s3_that_refuses_a_data_file_is_not_blamed_on_the_file(far_table, answer, kind):
    log, proxy = far_table
    snapshot = log.snapshot()
    proxy.faults = [Fault("GET", "f.parquet", times=100, answer=answer)]
    rows = snapshot.to_arrow()
    with pytest.raises(kind) as caught:
        rows.read_all()
    assert type(caught.value) is kind


@pytest.mark.parametrize("answer", [s3_error(503, "SlowDown"), None])
def test_rows_are_read_once_s3_answers_again(far_table, answer):
    log, proxy = far_table
    snapshot = log.snapshot()
    proxy.faults = [Fault("GET", "f.parquet", times=5, answer=answer)]
    assert snapshot.to_arrow().read_all()["n"].to_pylist() == [1, 2, 3]
    assert proxy.count("GET", "f.parquet") > 5
