"""The log store on Hadoop, on Hadoop's local filesystem."""

import pytest

from airflow_delta.core.errors import UnsupportedStorageError
from airflow_delta.core.storage.log_store_filesystem import log_store_filesystem
from airflow_delta.spark.hadoop.hadoop_log_store import HadoopLogStore
from tests.core.storage.log_store_contract import LogStoreContract
from tests.spark.needs import looks_into_the_jvm

pytestmark = looks_into_the_jvm


class TestHadoopLogStore(LogStoreContract):
    @pytest.fixture
    def store(self, spark, tmp_path):
        return HadoopLogStore(spark, f"file:{tmp_path}/table")


class TestHadoopLogStoreWithItsOwnFilesystem(LogStoreContract):
    """As on HDFS where Arrow finds no ``libhdfs``."""

    @pytest.fixture
    def store(self, spark, tmp_path, monkeypatch):
        store = HadoopLogStore(spark, f"file:{tmp_path}/table")
        monkeypatch.setattr(store, "data_filesystem", lambda: (log_store_filesystem(store), ""))
        return store


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x"])
def test_no_path_leaves_the_table(spark, tmp_path, path):
    with pytest.raises(ValueError, match="is not a path below"):
        HadoopLogStore(spark, str(tmp_path)).delete([path])


def test_a_file_where_the_log_would_be_is_no_commit(spark, tmp_path):
    (tmp_path / "_delta_log").write_bytes(b"")
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the kind is asserted below
        HadoopLogStore(spark, str(tmp_path)).write_if_absent("_delta_log/0", b"x")
    assert not isinstance(caught.value, FileExistsError)


@pytest.mark.parametrize("uri", ["s3://bucket/table", "gopher://host/table", "viewfs://nobody/table"])
def test_a_filesystem_that_hadoop_does_not_reach_or_that_creates_nothing_in_one_step_is_refused(spark, uri):
    with pytest.raises(UnsupportedStorageError) as caught:
        HadoopLogStore(spark, uri)
    assert caught.value.uri == uri


def test_reads_go_anywhere_in_a_file(spark, tmp_path):
    content = bytes(range(256)) * 20_000
    (tmp_path / "x").write_bytes(content)
    with HadoopLogStore(spark, str(tmp_path)).open_input("x") as stream:
        stream.seek(-5, 2)
        assert stream.read(10) == content[-5:]
        stream.seek(4_000_000)
        assert stream.read(1_000_000) == content[4_000_000:5_000_000]
        stream.seek(10_000_000)
        assert stream.read() == b""
        with pytest.raises(ValueError, match="negative"):
            stream.seek(-6_000_000, 2)


@pytest.mark.slow
def test_a_long_listing_comes_over_in_one_piece(spark, tmp_path):
    for number in range(1500):
        (tmp_path / f"{number:04d} ü;=, isDirectory=true").write_bytes(b"x" * (number % 300))
    (tmp_path / "directory").mkdir()
    store = HadoopLogStore(spark, str(tmp_path))
    listed = list(store.list_from("", "0001"))
    assert [(file.path, file.size) for file in listed] == [
        (f"{number:04d} ü;=, isDirectory=true", number % 300) for number in range(1, 1500)
    ]
    assert listed[0] == store.status("0001 ü;=, isDirectory=true")
    assert len(list(store.list_all())) == 1500


def test_a_stream_knows_how_much_went_into_it(spark, tmp_path):
    with HadoopLogStore(spark, str(tmp_path)).open_output("x") as stream:
        stream.write(b"12345")
        assert stream.tell() == 5
