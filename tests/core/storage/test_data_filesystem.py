"""fsspec's storage options say the same to Arrow's filesystems; where Arrow cannot take them, fsspec's own is used."""

import sys

import pyarrow.fs
import pytest

from airflow_delta.core.errors import InvalidStatementError, UnsupportedStorageError
from airflow_delta.core.storage.data_filesystem import data_filesystem
from airflow_delta.core.storage.resolve import log_store_for

KEYS = {"key": "k", "secret": "s"}
ENDPOINT = "http://127.0.0.1:9000"
AZURE = {"account_name": "acc", "account_key": "a2V5"}
EMULATOR = "AccountName=dev;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:10000/dev;"


@pytest.fixture(autouse=True)
def _nothing_ambient(monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")


def arguments(filesystem):
    """What Arrow's filesystem was made with."""
    _, pickled = filesystem.__reduce__()
    return next((item for item in pickled if isinstance(item, dict)), pickled)


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "S3"])
@pytest.mark.parametrize(
    "options",
    [
        {**KEYS, "token": "t", "endpoint_url": ENDPOINT},
        {
            "client_kwargs": {
                "aws_access_key_id": "k",
                "aws_secret_access_key": "s",
                "aws_session_token": "t",
                "endpoint_url": ENDPOINT,
            }
        },
        {**KEYS, "token": "t", "client_kwargs": {"endpoint_url": ENDPOINT}, "allow_unsafe": True, "max_concurrency": 3},
    ],
)
def test_s3(scheme, options):
    filesystem, path = data_filesystem(f"{scheme}://bucket/a b%20c/ü#?.parquet", options)
    assert isinstance(filesystem, pyarrow.fs.S3FileSystem)
    assert path == "bucket/a b%20c/ü#?.parquet"
    found = arguments(filesystem)
    assert (found["access_key"], found["secret_key"], found["session_token"]) == ("k", "s", "t")
    assert (found["scheme"], found["endpoint_override"], found["region"]) == ("http", "127.0.0.1:9000", "eu-west-1")


def test_s3_takes_region_endpoint_and_anonymity_from_where_botocore_does(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://minio:9000/")
    found = arguments(data_filesystem("s3://bucket/x", {"anon": True, "client_kwargs": {"region_name": "here"}})[0])
    assert (found["scheme"], found["endpoint_override"], found["region"]) == ("https", "minio:9000", "here")
    assert found["anonymous"] is True


@pytest.mark.parametrize(
    "option", [{"requester_pays": True}, {"client_kwargs": {"verify": False}}, {"config_kwargs": {"proxies": {}}}]
)
def test_options_of_s3_that_arrow_has_not_are_left_to_s3fs(option):
    filesystem, path = data_filesystem("s3://bucket/x", {**KEYS, **option})
    assert filesystem.handler.fs.protocol == ("s3", "s3a")
    assert path == "bucket/x"


@pytest.mark.parametrize("scheme", ["gs", "gcs"])
def test_gcs(scheme):
    filesystem, path = data_filesystem(f"{scheme}://bucket/a b", {"token": "anon", "endpoint_url": ENDPOINT})
    assert isinstance(filesystem, pyarrow.fs.GcsFileSystem)
    assert path == "bucket/a b"
    assert isinstance(data_filesystem("gs://bucket/x", {"token": "ya29.token", "project": "p"})[0], pyarrow.fs.GcsFileSystem)


@pytest.mark.parametrize(
    "uri",
    [
        "abfss://container@acc.dfs.core.windows.net/a b%20",
        "abfs://container@acc.dfs.core.windows.net/a b%20",
        "az://container/a b%20",
        "abfs://container/a b%20",
    ],
)
def test_azure(uri):
    filesystem, path = data_filesystem(uri, AZURE)
    assert isinstance(filesystem, pyarrow.fs.AzureFileSystem)
    assert path == "container/a b%20"
    assert arguments(filesystem)["account_name"] == "acc"
    assert arguments(filesystem)["account_key"] == "a2V5"


def test_azure_takes_the_account_from_the_uri_and_the_rest_from_a_connection_string():
    sas = data_filesystem("abfss://container@acc.dfs.core.windows.net/x", {"sas_token": "sig"})[0]
    assert (arguments(sas)["account_name"], arguments(sas)["sas_token"]) == ("acc", "sig")
    emulator = arguments(data_filesystem("az://container/x", {"connection_string": EMULATOR})[0])
    assert (emulator["account_name"], emulator["account_key"]) == ("dev", "a2V5")
    assert (emulator["blob_storage_scheme"], emulator["blob_storage_authority"]) == ("http", "127.0.0.1:10000")


def test_an_azure_account_outside_azure_is_not_sent_our_credentials():
    """A log can name any URI; no token goes to a host that is not Microsoft's."""
    with pytest.raises(InvalidStatementError):
        data_filesystem("abfss://container@acc.dfs.evil.example/x", AZURE)


def test_options_go_to_no_other_service_or_account():
    store = log_store_for("az://container/table", AZURE)
    other, path = store.data_filesystem("s3://bucket/x")
    assert isinstance(other, pyarrow.fs.S3FileSystem)
    assert path == "bucket/x"
    same, path = store.data_filesystem("az://container/elsewhere/x")
    assert path == "container/elsewhere/x"
    assert same is store.data_filesystem()[0]


@pytest.mark.parametrize("uri", ["s3:///x", "az://", "gs://"])
def test_a_uri_without_bucket_cannot_be_meant(uri):
    with pytest.raises(InvalidStatementError):
        data_filesystem(uri)


def test_credentials_in_a_uri_are_refused_and_not_shown():
    with pytest.raises(InvalidStatementError) as caught:
        log_store_for("s3://key:secret@bucket/x")
    assert "secret@" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "module", "extra"), [("s3://b/x", "s3fs", "s3"), ("gs://b/x", "gcsfs.core", "gcs"), ("az://b/x", "adlfs", "azure")]
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, uri, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnsupportedStorageError) as caught:
        log_store_for(uri)
    assert f"pip install 'airflow-delta[{extra}]'" in str(caught.value)


def test_options_that_a_package_does_not_take_are_named_but_not_shown():
    with pytest.raises(UnsupportedStorageError) as caught:
        log_store_for("az://container/x", {"account_key": "secret"})
    assert "account_key" in str(caught.value)
    assert "secret" not in str(caught.value)
