"""What the environment says of the cache on disk."""

import pytest

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.storage.ambient_cache import ambient_cache
from airflow_delta.core.storage.caching_log_store import CachingLogStore
from airflow_delta.core.storage.disk_cache import DiskCache
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.core.storage.resolve import log_store_for
from airflow_delta.core.storage.s3_log_store import S3LogStore


@pytest.fixture(autouse=True)
def _nothing_ambient(monkeypatch):
    for name in ("DIR", "BYTES", "FILES"):
        monkeypatch.delenv(f"AIRFLOW_DELTA_CACHE_{name}", raising=False)


def test_without_a_folder_there_is_no_cache(monkeypatch):
    monkeypatch.setenv("AIRFLOW_DELTA_CACHE_BYTES", "1000")
    assert ambient_cache() is None
    assert type(log_store_for("s3://lake/t", {"key": "k", "secret": "s"})) is S3LogStore


def test_a_folder_is_enough(monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW_DELTA_CACHE_DIR", str(tmp_path / "cache"))
    assert ambient_cache() == DiskCache(folder=str(tmp_path / "cache"), most_bytes=10_000_000_000, keeps_files=False)


def test_bound_and_data_files_are_as_said(monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW_DELTA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_DELTA_CACHE_BYTES", "5000")
    monkeypatch.setenv("AIRFLOW_DELTA_CACHE_FILES", "True")
    assert ambient_cache() == DiskCache(folder=str(tmp_path), most_bytes=5000, keeps_files=True)


@pytest.mark.parametrize(
    ("name", "value", "detail"),
    [
        ("DIR", "cache", "not an absolute path"),
        ("BYTES", "10GB", "a number of bytes, found '10GB'"),
        ("BYTES", "-1", "a number of bytes"),
        ("BYTES", "0", "positive"),
        ("FILES", "perhaps", "true or false"),
    ],
)
def test_what_has_no_meaning_is_refused_with_what_is_expected(monkeypatch, tmp_path, name, value, detail):
    monkeypatch.setenv("AIRFLOW_DELTA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(f"AIRFLOW_DELTA_CACHE_{name}", value)
    with pytest.raises(InvalidStatementError, match=detail):
        ambient_cache()


def test_only_object_stores_are_cached(monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW_DELTA_CACHE_DIR", str(tmp_path / "cache"))
    assert type(log_store_for(str(tmp_path / "t"))) is LocalLogStore
    assert type(log_store_for("s3://lake/t", {"key": "k", "secret": "s"})) is CachingLogStore
    assert not (tmp_path / "cache").exists()
