"""Spellings of one place."""

import pytest

from airflow_delta.core.storage.place import Place


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/lake/t", "/lake/t/"),
        ("/lake/t", "file:/lake/t"),
        ("file:///lake//t/", "/lake/x/../t"),
        ("s3://lake/t", "s3a://lake/t/"),
        ("s3n://lake/t", "s3://lake//t//"),
        ("gs://lake/t", "gcs://lake/t/"),
        ("abfss://c@a.dfs.core.windows.net/t", "abfs://c@A.blob.core.windows.net/t/"),
        ("hdfs://nn:8020/t", "HDFS://NN:8020/t/"),
        ("memory://t", "memory://t/"),
    ],
)
def test_spellings_of_one_place_are_equal(one, other):
    assert Place.from_uri(one) == Place.from_uri(other)
    assert Place.from_uri(one).overlaps(Place.from_uri(f"{other.rstrip('/')}/day=mon/f.parquet"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/lake/t", "/lake/t2"),
        ("/lake/a b", "/lake/a%20b"),
        ("/lake/t", "hdfs://nn/lake/t"),
        ("s3://lake/t", "s3://Lake/t"),
        ("s3://lake/t", "gs://lake/t"),
        ("abfss://c@a.dfs.core.windows.net/t", "abfss://c@b.dfs.core.windows.net/t"),
    ],
)
def test_other_places_differ_and_do_not_overlap(one, other):
    assert Place.from_uri(one) != Place.from_uri(other)
    assert not Place.from_uri(one).overlaps(Place.from_uri(other))


def test_links_and_relative_paths_are_followed(tmp_path, monkeypatch):
    (tmp_path / "lake" / "t").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    monkeypatch.chdir(tmp_path / "lake")

    assert Place.from_uri(str(tmp_path / "link" / "t")) == Place.from_uri("t") == Place.from_uri(f"file:{tmp_path}/lake/t")
