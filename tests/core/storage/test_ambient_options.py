"""Storage options from the environment, as a Spark job finds them."""

import json

import pyarrow.fs
import pytest

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.storage.ambient_options import VARIABLE, ambient_options
from airflow_delta.core.storage.data_filesystem import data_filesystem
from airflow_delta.core.storage.object_location import ObjectLocation
from airflow_delta.core.storage.resolve import log_store_for


@pytest.fixture
def set_options(monkeypatch):
    return lambda **options: monkeypatch.setenv(VARIABLE, json.dumps(options))


def options_at(uri):
    return ambient_options(ObjectLocation.from_uri(uri))


def test_each_service_has_its_own(set_options):
    set_options(s3={"key": "k"}, gcs={"token": "anon"})
    assert options_at("s3a://b/t") == {"key": "k"}
    assert options_at("gs://b/t") == {"token": "anon"}
    assert options_at("az://c/t") == {}


def test_without_the_variable_there_are_none(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert options_at("s3://b/t") == {}


@pytest.mark.parametrize("reported", [{"account_name": "mine"}, {"connection_string": "AccountName=mine;AccountKey=k=="}])
def test_those_of_one_azure_account_are_for_no_other(set_options, reported):
    set_options(azure=reported)
    assert options_at("abfss://c@mine.dfs.core.windows.net/t") == reported
    assert options_at("az://c/t") == reported
    assert options_at("abfss://c@theirs.dfs.core.windows.net/t") == {}


def test_the_log_and_the_data_files_are_reached_by_them(set_options, s3):
    set_options(s3=s3.options)
    log_store_for(f"{s3.uri}/t").write("a/b", b"text")
    filesystem, path = data_filesystem(f"{s3.uri}/t/a/b")
    assert isinstance(filesystem, pyarrow.fs.S3FileSystem)
    with filesystem.open_input_stream(path) as stream:
        assert stream.read() == b"text"


def test_options_that_are_given_go_before_them(set_options, s3):
    set_options(s3={"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:9"})
    assert not log_store_for(f"{s3.uri}/t", s3.options).exists("a")


@pytest.mark.parametrize("text", ["{hunter2", '"hunter2"', '{"s3": "hunter2"}'])
def test_a_variable_that_cannot_be_meant_is_refused_and_not_shown(monkeypatch, text):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(InvalidStatementError, match=VARIABLE) as caught:
        options_at("s3://b/t")
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__}"
