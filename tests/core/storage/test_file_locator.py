"""A user who can write below one table reads nothing outside of it with the rights of a job."""

import json
import os
import time

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core import errors
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.storage.data_filesystem import data_filesystem
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.table_filesystems import TableFilesystems
from tests.core.builders import add, metadata, protocol, remove, schema_string

ROWS = pa.table({"n": pa.array([1, 2, 3], pa.int64())})
SECRET = pa.table({"n": pa.array([41, 42], pa.int64())})


@pytest.fixture
def place(tmp_path):
    """A table of one file, and a table of secrets beside it."""
    for name, rows in (("table", ROWS), ("secret", SECRET)):
        root = tmp_path / name
        (root / "_delta_log").mkdir(parents=True)
        pq.write_table(rows, root / "f.parquet")
        feed = {"delta.enableChangeDataFeed": "true"}
        commit(root, 0, protocol(1, 4), metadata(schema_string(n="long"), **feed), add("f.parquet", size=1))
    return tmp_path


def commit(root, version, *actions):
    (root / f"_delta_log/{version:020}.json").write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def rows(root, **options):
    return sorted(DeltaLog.for_table(str(root), **options).snapshot().to_arrow().read_all()["n"].to_pylist())


HOSTILE = [
    "{secret}/f.parquet",
    "/{secret}/f.parquet",
    "///{secret}/f.parquet",
    "file:{secret}/f.parquet",
    "file://{secret}/f.parquet",
    "FILE:{secret}/f.parquet",
    "../secret/f.parquet",
    "./../secret/f.parquet",
    "x/../../secret/f.parquet",
    "%2e%2e/secret/f.parquet",
    "%2E./secret/f.parquet",
    "..%2fsecret%2ff.parquet",
    "{table}/../secret/f.parquet",
    "file:{table}/%2e%2e/secret/f.parquet",
    "..\\secret\\f.parquet",
    "x\\..\\..\\secret/f.parquet",
    "link/f.parquet",
    "./link//f.parquet",
    "link.parquet",
    "{table}/link/f.parquet",
    "file:{table}/link.parquet",
    "s3://somebody-elses-bucket/f.parquet",
    "S3A://somebody-elses-bucket/f.parquet",
    "gs://somebody-elses-bucket/f.parquet",
    "abfss://c@somebody.dfs.core.windows.net/f.parquet",
    "abfss://c@somebody.example/f.parquet",
    "hdfs://host/f.parquet",
    "ftp://host/f.parquet",
    "f.parquet%00/../../secret/f.parquet",
]


def make_hostile(place, path):
    root = place / "table"
    (root / "link").symlink_to(place / "secret")
    (root / "link.parquet").symlink_to(place / "secret" / "f.parquet")
    named = path.format(secret=place / "secret", table=root)
    commit(root, 1, add(named, size=1))
    return named


def clone_and_read(root, clone):
    DeltaLog.for_table(str(root)).shallow_clone(str(clone))
    return rows(clone)


@pytest.mark.parametrize("path", HOSTILE)
def test_a_path_that_leaves_the_table_is_refused_at_once_in_reads_clones_manifests_and_restores(place, path):
    named = make_hostile(place, path)
    root = place / "table"
    began = time.monotonic()
    log = DeltaLog.for_table(str(root))
    works = [
        lambda: log.snapshot().to_arrow().read_all(),
        log.recompute_statistics,
        lambda: log.changes(1, 1).read_all(),
    ]
    if "link" not in path:  # these name files, and open none
        works += [lambda: log.shallow_clone(str(place / "clone")), log.generate_manifests]
    else:
        works.append(lambda: clone_and_read(root, place / "clone"))
    for work in works:
        with pytest.raises(errors.PathOutsideTableError) as caught:
            work()
        assert "link" in path or repr(named) in str(caught.value)
    commit(root, 2, remove(named))
    with pytest.raises((errors.PathOutsideTableError, errors.DataFilesMissingError)):
        DeltaLog.for_table(str(root)).restore(1)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("storage_type", ["p", "u", "r"])
def test_a_deletion_vector_outside_of_the_table_is_refused(place, storage_type):
    root = place / "table"
    text = {"p": f"file:{place}/secret/dv.bin", "u": "../secret/ab^-aqEH.-t@S}K{vb[*k^", "r": "../secret/dv.bin"}[storage_type]
    deletion_vector = {"storageType": storage_type, "pathOrInlineDv": text, "offset": 1, "sizeInBytes": 34, "cardinality": 1}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    commit(root, 1, protocol(3, 7, **features), remove("f.parquet"), add("f.parquet", size=1, deletionVector=deletion_vector))
    log = DeltaLog.for_table(str(root))
    for work in (lambda: log.snapshot().to_arrow().read_all(), lambda: log.shallow_clone(str(place / "clone"))):
        with pytest.raises(errors.PathOutsideTableError, match="secret"):
            work()


def test_a_change_file_outside_of_the_table_is_refused(place):
    root = place / "table"
    change = {"path": f"{place}/secret/f.parquet", "partitionValues": {}, "size": 1, "dataChange": False}
    commit(root, 1, {"cdc": change}, {"commitInfo": {"timestamp": 1}})
    with pytest.raises(errors.PathOutsideTableError, match="secret"):
        DeltaLog.for_table(str(root)).changes(1, 1).read_all()


ODD_BUT_INSIDE = [
    "a b.parquet",
    "100%.parquet",
    "..parquet",
    "a..b",
    "back\\slash",
    "\uff0e\uff0e\u2215secret",
    "%2e%2e",
    "C:",
    "a:b?c#d*",
]


@pytest.mark.parametrize("name", ODD_BUT_INSIDE)
def test_a_strange_name_inside_of_the_table_is_read_and_decoded_once(place, name):
    root = place / "table"
    (root / name).mkdir()
    pq.write_table(ROWS, root / name / "g.parquet")
    encoded = "".join(f"%{byte:02x}" if byte in b"%?#\\ *" or byte > 127 else chr(byte) for byte in name.encode())
    commit(root, 1, remove("f.parquet"), add(f"{encoded}/g.parquet", size=1))
    assert rows(root) == [1, 2, 3]
    assert FileLocator(lambda _: data_filesystem(str(root)), str(root)).check(pa.chunked_array([[f"{encoded}/g"]])) is None


@pytest.mark.parametrize("prefix", ["{root}", "file:{root}", "file://{root}", "{link}", "file:{link}"])
def test_an_absolute_path_into_the_table_itself_is_read_by_whatever_way_it_leads_there(place, prefix):
    root, link = place / "table", place / "another way"
    link.symlink_to(root)
    path = f"{prefix.format(root=root, link=str(link).replace(' ', '%20'))}/f.parquet"
    commit(root, 1, remove("f.parquet"), add(path, size=1))
    assert rows(root) == rows(link) == [1, 2, 3]


def test_an_allowed_prefix_is_read_and_its_neighbor_is_not(place):
    root = place / "table"
    commit(root, 1, add(f"{place}/secret/f.parquet", size=1))
    assert rows(root, allowed_prefixes=[f"file://{place}/secret/"]) == [1, 2, 3, 41, 42]
    for prefix in ("secre", "secret2", "secret/f", "table/../secretx"):
        with pytest.raises(errors.PathOutsideTableError):
            rows(root, allowed_prefixes=[f"{place}/{prefix}"])


def test_the_environment_allows_prefixes(place, monkeypatch):
    commit(place / "table", 1, add(f"{place}/secret/f.parquet", size=1))
    monkeypatch.setenv("AIRFLOW_DELTA_ALLOWED_PREFIXES", json.dumps([str(place / "secret")]))
    assert rows(place / "table") == [1, 2, 3, 41, 42]
    monkeypatch.setenv("AIRFLOW_DELTA_ALLOWED_PREFIXES", "/")
    with pytest.raises(errors.InvalidStatementError, match="JSON list"):
        rows(place / "table")


def test_a_clone_reads_its_source_and_a_clone_of_the_clone_too(place):
    source = DeltaLog.for_table(str(place / "secret"))
    assert source.shallow_clone(str(place / "clone")).unregistered is None
    pq.write_table(ROWS, place / "clone" / "own.parquet")
    commit(place / "clone", 1, add("own.parquet", size=1))
    assert rows(place / "clone") == [1, 2, 3, 41, 42]
    DeltaLog.for_table(str(place / "clone")).shallow_clone(str(place / "second"))
    assert rows(place / "second") == [1, 2, 3, 41, 42]
    (place / "another way").symlink_to(place / "second")
    assert rows(place / "another way") == [1, 2, 3, 41, 42]


def test_a_table_that_only_says_that_it_is_a_clone_reads_nothing_of_its_source(place):
    root, secret = place / "table", place / "secret"
    operation = {"operation": "CLONE", "operationParameters": {"source": f"delta.`file:{secret}`", "sourceVersion": "0"}}
    commit(root, 1, {"commitInfo": {"timestamp": 1, **operation}}, add(f"file:{secret}/f.parquet", size=1))
    (root / "_airflow_delta").mkdir()
    for said in ([str(secret)], [str(secret)] * 100, {"a": 1}, [None], "x"):
        (root / "_airflow_delta/clone_sources.json").write_text(json.dumps(said))
        with pytest.raises(errors.PathOutsideTableError):
            rows(root)


def test_a_clone_whose_source_may_only_be_read_says_what_its_readers_need(place, caplog, monkeypatch):
    def refuse(*_):
        raise errors.StorageAccessError(uri="source", detail="only to be read")

    source = DeltaLog.for_table(str(place / "secret"))
    monkeypatch.setattr(source.store, "write", refuse)
    assert "only to be read" in source.shallow_clone(str(place / "clone")).unregistered
    assert "allowed_prefixes" in caplog.text
    with pytest.raises(errors.PathOutsideTableError, match="allowed_prefixes"):
        rows(place / "clone")
    assert rows(place / "clone", allowed_prefixes=[str(place / "secret")]) == [41, 42]


def test_an_object_store_is_asked_for_nothing_outside_of_the_table():
    requested = []

    def filesystem(uri):
        requested.append(uri)
        return pafs.SubTreeFileSystem("/nowhere", pafs.LocalFileSystem()), "bucket/lake/table"

    locate = FileLocator(filesystem, "s3://bucket/lake/table", ["s3a://bucket/lake/shared"])
    for path in (
        "s3://bucket/lake/other/f",
        "s3a://bucket/lake/table2/f",
        "s3://other/lake/table/f",
        "gs://bucket/lake/table/f",
    ):
        with pytest.raises(errors.PathOutsideTableError):
            locate(path)
    assert set(requested) == {None}
    for path in ("s3a://bucket/lake/table/f", "s3n://bucket//lake/./table/x/f", "S3://bucket/lake/shared/f"):
        locate(path)
    assert requested[1:] == ["s3a://bucket/lake/table/f", "s3n://bucket//lake/./table/x/f", "S3://bucket/lake/shared/f"]


SEGMENTS = st.sampled_from(
    ["..", ".", "%2e%2e", "%252e%252e", "a", "secret", "\\", "%5c", "%2f", "", "link", "file:", "s3:", "\u2025", "..\\"]
)


@given(st.lists(SEGMENTS, min_size=1, max_size=6).map("/".join))
def test_no_path_leads_out_of_a_local_table(tmp_path_factory, path):
    root = tmp_path_factory.getbasetemp() / "contained" / "table"
    (root / "a").mkdir(parents=True, exist_ok=True)
    if not (root / "link").is_symlink():
        (root / "link").symlink_to(root.parent)
    locate = FileLocator(TableFilesystems(str(root)), str(root))
    try:
        _, place = locate(path)
    except errors.PathOutsideTableError:
        return
    assert f"{os.path.realpath(place)}/".startswith(f"{os.path.realpath(root)}/")


def test_many_paths_are_checked_in_no_time(tmp_path):
    numbers = pa.array(range(200_000), pa.int64()).cast(pa.string())
    paths = pc.binary_join_element_wise("day=2020-01-01%2000%3A00/part-", numbers, ".parquet", "")
    absolute = pc.binary_join_element_wise(f"file:{tmp_path}/", paths, "")
    locate = FileLocator(TableFilesystems(str(tmp_path)), str(tmp_path))
    began = time.process_time()
    locate.check(pa.chunked_array([paths, absolute]))
    assert time.process_time() - began < 2
