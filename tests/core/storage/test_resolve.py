from pathlib import Path

import pyarrow.fs
import pytest

from airflow_delta.core.errors import InvalidStatementError, UnsupportedStorageError
from airflow_delta.core.storage.data_filesystem import data_filesystem
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.core.storage.resolve import log_store_for
from airflow_delta.core.storage.table_uri import is_relative


@pytest.mark.parametrize(
    "uri", ["/tables/x", "tables/x", "file:///tables/x", "file:/tables/x", "FILE:/tables/x", "file://localhost/tables/x"]
)
def test_a_path_and_a_file_uri_are_local(uri):
    assert isinstance(log_store_for(uri), LocalLogStore)


def test_memory_tables_of_one_uri_are_one_table():
    log_store_for("memory://resolve/a").write("x", b"1")
    assert isinstance(log_store_for("memory://resolve/a/"), InMemoryLogStore)
    assert log_store_for("memory://resolve/a/").read("x") == b"1"
    assert not log_store_for("memory://resolve/b").exists("x")


@pytest.mark.parametrize("uri", ["sftp://host/x", "smb://host/x", "dbfs:/x"])
def test_a_filesystem_without_a_known_atomic_create_is_refused(uri):
    with pytest.raises(UnsupportedStorageError) as caught:
        log_store_for(uri)
    assert caught.value.uri == uri


@pytest.mark.parametrize("uri", ["", "  "])
def test_a_blank_uri_is_not_the_root_of_the_filesystem(uri):
    with pytest.raises(InvalidStatementError):
        log_store_for(uri)


@pytest.mark.parametrize("uri", [None, 7, Path("/tables/x")], ids=str)
def test_what_is_no_text_is_no_uri(uri):
    with pytest.raises(InvalidStatementError, match="must be a text, found"):
        log_store_for(uri)


@pytest.mark.parametrize("uri", ["/tables/a\0b", "a\0b", "s3://bucket/a\0b"])
def test_a_uri_with_a_nul_character_is_refused_before_a_filesystem_sees_it(uri):
    with pytest.raises(InvalidStatementError, match="NUL character"):
        log_store_for(uri)


def test_a_local_table_takes_no_storage_options():
    with pytest.raises(UnsupportedStorageError):
        log_store_for("/tables/x", {"key": "secret"})


@pytest.mark.parametrize("uri", ["/tables/a b", "file:///tables/a b", "file:/tables/a b", "file://localhost/tables/a b"])
def test_the_filesystem_of_local_data_files_decodes_nothing(uri):
    filesystem, path = data_filesystem(uri)
    assert isinstance(filesystem, pyarrow.fs.LocalFileSystem)
    assert path == "/tables/a b"


def test_data_files_on_an_unknown_filesystem_are_refused():
    with pytest.raises(UnsupportedStorageError):
        data_filesystem("sftp://host/x")


@pytest.mark.parametrize(
    ("path", "relative"),
    [("p=a:b/x.parquet", True), ("x.parquet", True), ("/x", False), ("s3://b/x", False), ("file:/x", False)],
)
def test_a_path_of_the_log_is_relative_unless_it_says_otherwise(path, relative):
    assert is_relative(path) is relative
