import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.log.file_names import (
    END_OF_VERSIONS,
    MAX_VERSION,
    LogFileKind,
    LogFileName,
    checkpoint_part_path,
    checkpoint_path,
    checksum_path,
    commit_file,
    commit_path,
    compacted_path,
    parse_name,
    referenced_sidecar,
    sidecar_path,
    v2_checkpoint_path,
    version_prefix,
)

VERSIONS = st.integers(min_value=0, max_value=MAX_VERSION)


@given(st.lists(VERSIONS))
def test_commit_files_sort_by_name_as_their_versions_sort(versions):
    assert sorted(map(commit_file, versions)) == [commit_file(version) for version in sorted(versions)]


@given(VERSIONS)
def test_names_are_understood_as_they_are_made(version):
    assert parse_name(commit_file(version)) == LogFileName(kind=LogFileKind.COMMIT, version=version)
    name = checkpoint_path(version).removeprefix("_delta_log/")
    assert parse_name(name) == LogFileName(kind=LogFileKind.CLASSIC_CHECKPOINT, version=version)


@given(VERSIONS, VERSIONS)
def test_a_listing_from_a_version_misses_no_file_of_it_or_of_a_later_one(start, version):
    for name in (commit_file(version), f"{version:020d}.checkpoint.parquet"):
        assert (version_prefix(start) <= name < END_OF_VERSIONS) is (start <= version)


def test_paths_are_below_the_log_directory():
    assert commit_path(7) == "_delta_log/00000000000000000007.json"
    assert checkpoint_path(7) == "_delta_log/00000000000000000007.checkpoint.parquet"


@given(VERSIONS, VERSIONS)
def test_names_of_checksums_and_compacted_commits_are_understood_as_they_are_made(version, end):
    name = checksum_path(version).removeprefix("_delta_log/")
    assert parse_name(name) == LogFileName(kind=LogFileKind.CHECKSUM, version=version)
    name = compacted_path(version, end).removeprefix("_delta_log/")
    assert parse_name(name) == LogFileName(kind=LogFileKind.COMPACTED_COMMITS, version=version, end=end)


@pytest.mark.parametrize(
    "path",
    [
        "a b.parquet",
        "a%20b.parquet",
        "s3://bucket/table/_delta_log/_sidecars/a%20b.parquet",
        "file:/table/_delta_log/_sidecars/a%20b.parquet",
    ],
)
def test_a_sidecar_lies_in_the_tables_own_directory_whatever_the_checkpoint_calls_it(path):
    assert referenced_sidecar(path) == sidecar_path("a b.parquet") == "_delta_log/_sidecars/a b.parquet"


@pytest.mark.parametrize("path", ["", "a/", "..", "a/%2e%2e", "..%2f..%2fsecret.parquet"])
def test_a_path_that_leads_elsewhere_is_no_sidecar(path):
    with pytest.raises(ValueError, match="not the path of a sidecar"):
        referenced_sidecar(path)


def test_a_part_shows_its_number_and_the_number_of_parts():
    path = checkpoint_part_path(1, 2, 3)
    assert path == "_delta_log/00000000000000000001.checkpoint.0000000002.0000000003.parquet"
    assert parse_name(path.removeprefix("_delta_log/")) == LogFileName(
        kind=LogFileKind.CHECKPOINT_PART, version=1, part=2, parts=3
    )


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_a_v2_checkpoint_is_known_for_what_it_is(ending):
    path = v2_checkpoint_path(4, "15c868d9-01e0-4c79-b9b9-5a0dfbe6b7e1", ending)
    assert path == f"_delta_log/00000000000000000004.checkpoint.15c868d9-01e0-4c79-b9b9-5a0dfbe6b7e1.{ending}"
    assert parse_name(path.removeprefix("_delta_log/")) == LogFileName(kind=LogFileKind.V2_CHECKPOINT, version=4)


@pytest.mark.parametrize(
    "name",
    [
        ".00000000000000000001.json.crc",
        "00000000000000000001.4.compacted.json",
        "\u0660" * 20 + ".json",
        "00000000000000000001.json.tmp",
        "00000000000000000001.json.crc",
        "_commit_0b1c.json.tmp",
        "_last_checkpoint",
        "_staged_commits",
        "1.json",
        "00000000000000000001.checkpoint.parquet.tmp",
        "00000000000000000001.checkpoint.1.3.parquet.crc",
        "00000000000000000001.JSON",
        "x00000000000000000001.json",
        "00000000000000000001.json\n",
        "",
    ],
)
def test_other_files_are_ignored(name):
    assert parse_name(name) is None
