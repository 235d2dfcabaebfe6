"""Footers, and where it is wanted data files, from this machine's disk; S3 by moto behind a proxy that counts."""

import dataclasses
import io

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.data_files.reader import open_data_file, read_footer
from airflow_delta.core.schema import parse_schema
from airflow_delta.core.storage.cached_data_files import cached_file, footer_source
from airflow_delta.core.storage.data_filesystem import data_filesystem
from tests.core.faulty_proxy import faulty_proxy
from tests.core.object_stores import s3_bucket

SCHEMA = parse_schema('{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}')
FILE = "t/part-0.parquet"


@pytest.fixture(scope="module")
def proxy(moto_server):
    with faulty_proxy(moto_server) as running:
        yield running


@pytest.fixture
def bucket(proxy, moto_server):
    bucket = s3_bucket(moto_server)
    return dataclasses.replace(bucket, options=bucket.options | {"endpoint_url": proxy.url})


@pytest.fixture(params=["footers", "files"])
def kept(request, monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW_DELTA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("AIRFLOW_DELTA_CACHE_FILES", "true" if request.param == "files" else "false")
    return request.param


def parquet(*numbers):
    buffer = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), buffer)
    return buffer.getvalue()


def put(bucket, content):
    bucket.client.put_object(Bucket=bucket.bucket, Key=FILE, Body=content)


def opened(bucket):
    filesystem, root = data_filesystem(bucket.uri, bucket.options)
    return filesystem, f"{root}/{FILE}"


def requests(proxy):
    found = [method for method, path in proxy.seen if FILE in path]
    proxy.seen.clear()
    return found


def rows(bucket):
    return [row for batch in open_data_file(*opened(bucket), SCHEMA, {}) for row in batch["n"].to_pylist()]


def test_a_footer_is_read_once_and_then_only_its_version_is_asked_for(bucket, proxy, kept):
    put(bucket, parquet(1, 2, 3))
    requests(proxy)
    assert read_footer(*opened(bucket)).metadata.num_rows == 3
    assert requests(proxy) == ["HEAD", "GET"]
    footer = read_footer(*opened(bucket))
    assert (footer.metadata.num_rows, footer.unreadable) == (3, frozenset())
    assert requests(proxy) == ["HEAD"]


def test_rows_are_read_with_the_footer_from_disk_or_wholly_from_it(bucket, proxy, kept):
    put(bucket, parquet(*range(100_000)))
    assert rows(bucket) == [*range(100_000)]
    requests(proxy)
    assert rows(bucket) == [*range(100_000)]
    assert requests(proxy) == (["HEAD", "GET"] if kept == "footers" else ["HEAD"])


def test_a_file_that_was_replaced_under_its_name_is_read_anew(bucket, proxy, kept):
    for numbers in ((1, 2, 3), (4, 5, 6), (7,), (1, 2, 3)):
        put(bucket, parquet(*numbers))
        assert rows(bucket) == [*numbers]
        assert read_footer(*opened(bucket)).metadata.num_rows == len(numbers)
        assert rows(bucket) == [*numbers]


def test_a_footer_longer_than_the_first_read_is_on_disk_too(bucket, proxy, kept):
    buffer = io.BytesIO()
    pq.write_table(pa.table({f"{'a_long_name' * 20}_{number}": [number] for number in range(1000)}), buffer)
    put(bucket, buffer.getvalue())
    content = read_footer(*opened(bucket)).content
    assert len(content) > 64 << 10
    requests(proxy)
    assert read_footer(*opened(bucket)).content == content
    assert requests(proxy) == ["HEAD"]


def test_a_missing_file_is_a_file_not_found(bucket, kept):
    with pytest.raises(FileNotFoundError):
        read_footer(*opened(bucket))


def test_without_a_cache_and_on_a_local_disk_files_are_read_as_they_are(bucket, monkeypatch, tmp_path):
    (tmp_path / "x").write_bytes(b"x")
    local = pafs.LocalFileSystem()
    with local.open_input_file(str(tmp_path / "x")) as source:
        assert footer_source(local, str(tmp_path / "x"), source) is source
        monkeypatch.setenv("AIRFLOW_DELTA_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setenv("AIRFLOW_DELTA_CACHE_FILES", "true")
        assert footer_source(local, str(tmp_path / "x"), source) is source
        assert cached_file(local, str(tmp_path / "x"), source) is source
    assert not (tmp_path / "cache").exists()
