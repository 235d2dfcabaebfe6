"""A deep clone owns copies of its source's files, and is readable when the source is deleted."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    AppendOnlyTableError,
    ConcurrentWriteError,
    CorruptDataFileError,
    MissingDataFileError,
    PathOutsideTableError,
    TableExistsError,
)
from airflow_delta.core.operations import file_copier
from airflow_delta.core.operations.clone import CloneResult
from airflow_delta.core.operations.file_copier import FileCopies, LocalFileCopier
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.table_features.feature import writer_features
from tests.core.faults.killed_runs import kill_at
from tests.golden_tables import TABLES

NAMES = sorted(path.parent.name for path in TABLES.glob("*/table"))
NOT_READ_BY_DUCKDB = {"type_widening", "empty", "variant"}  # and duckdb cannot pass variants to Arrow
ROOT = Path(__file__).parents[3]
DAY = 86_400_000


@pytest.fixture
def source(real_table):
    """Versions 1 and 2: the rows 0, 1 and then 2, in partitions whose names need encoding."""
    table = real_table(**{"user.key": "kept"})
    adds = [
        table.add(f"p=a b%/{number} é.parquet", number, "a b%", log_path=f"p=a%20b%25/{number}%20%C3%A9.parquet")
        for number in range(3)
    ]
    table.commit(adds=pa.concat_tables(adds[:2]))
    table.commit(adds=adds[2])
    return table


def rows_of(log_or_root):
    """The rows as our core reads them, with duplicates."""
    log = log_or_root if isinstance(log_or_root, DeltaLog) else DeltaLog.for_table(str(log_or_root))
    return Counter(map(str, log.snapshot().to_arrow().read_all().to_pylist()))


def by_duckdb(connection, root):
    return Counter(map(str, connection.sql(f"FROM delta_scan('{root}')").to_arrow_table().to_pylist()))


def data_files(root):
    return [path for path in Path(root).rglob("*") if path.is_file() and "_delta_log" not in path.parts]


# -- what a clone holds


def test_a_deep_clone_is_read_by_every_engine_when_its_source_is_gone(source, tmp_path, duckdb_connection):
    target = tmp_path / "the clone"
    size = sum(source.log.snapshot().files()["size"].to_pylist())
    expected = rows_of(source.log)
    result = source.log.deep_clone(str(target), origin=Origin(job={"jobName": "copy"}))
    assert result == CloneResult(version=0, source_version=2, files=3, bytes=size, copied_files=3, copied_bytes=size)
    shutil.rmtree(source.root)
    assert rows_of(target) == expected
    assert {(row["n"], row["p"]) for row in DeltaTable(target).to_pyarrow_table().to_pylist()} == {
        (0, "a b%"), (1, "a b%"), (2, "a b%"),
    }  # fmt: skip
    assert by_duckdb(duckdb_connection, target) == expected
    assert [row["n"] for row in DeltaLog.for_table(str(target)).snapshot().to_arrow(where="n > 1").read_all().to_pylist()] == [
        2
    ]


def test_a_deep_clone_names_its_own_files_and_keeps_what_the_log_says_of_them(source, tmp_path):
    source.log.deep_clone(str(tmp_path / "clone"), version=1, properties={"user.other": "new"})
    clone = DeltaLog.for_table(str(tmp_path / "clone"))
    made, original = clone.snapshot(), source.log.snapshot(1)
    assert made.metadata.configuration == {"user.key": "kept", "user.other": "new"}
    assert made.metadata.id != original.metadata.id
    kept = ["partition_values", "size", "modification_time", "stats", "tags"]
    ours, theirs = (sorted(map(str, snapshot.files().select(kept).to_pylist())) for snapshot in (made, original))
    assert ours == theirs
    sizes = {file["path"]: file["size"] for file in made.files().to_pylist()}
    assert len(sizes) == 2
    assert {path: (tmp_path / "clone" / path).stat().st_size for path in sizes} == sizes
    assert not (tmp_path / "clone" / "_airflow_delta").exists()
    info = clone.history()[0].commit_info
    size = str(sum(original.files()["size"].to_pylist()))
    assert (info.operation, info.operation_parameters) == (
        "CLONE",
        {"source": f"delta.`file:{source.root}`", "sourceVersion": 1, "isShallow": False},
    )
    assert info.operation_metrics == {
        "sourceTableSize": size, "sourceNumOfFiles": "2", "numRemovedFiles": "0",
        "numCopiedFiles": "2", "removedFilesSize": "0", "copiedFilesSize": size,
    }  # fmt: skip


def test_the_version_of_a_time_is_cloned(source, tmp_path):
    time = source.log.history()[1].timestamp
    source.log.deep_clone(str(tmp_path / "clone"), timestamp=time)
    assert sorted(DeltaTable(tmp_path / "clone").to_pyarrow_table()["n"].to_pylist()) == [0, 1]


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_spark_is_cloned_with_its_rows_schema_features_and_clustering(
    golden_table, tmp_path, duckdb_connection, name
):
    root, target = golden_table(name), tmp_path / "the clone"
    is_read_by_duckdb = name not in NOT_READ_BY_DUCKDB
    expected, original = rows_of(root), DeltaLog.for_table(str(root)).snapshot()
    expected_by_duckdb = by_duckdb(duckdb_connection, root) if is_read_by_duckdb else None
    DeltaLog.for_table(str(root)).deep_clone(str(target))
    shutil.rmtree(root)
    clone = DeltaLog.for_table(str(target)).snapshot()
    assert rows_of(target) == expected
    assert clone.metadata.schema_string == original.metadata.schema_string
    assert clone.partition_columns == original.partition_columns
    assert lasting(clone.metadata.configuration) == lasting(original.metadata.configuration)
    assert writer_features(clone.protocol) == writer_features(original.protocol)
    assert clone.domains.get("delta.clustering") == original.domains.get("delta.clustering")
    if is_read_by_duckdb:
        assert by_duckdb(duckdb_connection, target) == expected_by_duckdb


def lasting(configuration):
    return {name: value for name, value in configuration.items() if "ColumnName" not in name and "Enablement" not in name}


def test_rows_are_numbered_anew_and_on_behind_those_of_a_replaced_table(golden_table, tmp_path):
    log, target = DeltaLog.for_table(str(golden_table("row_tracking"))), str(tmp_path / "clone")
    log.deep_clone(target)
    clone = DeltaLog.for_table(target)
    ids = sorted(clone.snapshot().files()["base_row_id"].to_pylist())
    mark = json.loads(clone.snapshot().domains["delta.rowTracking"].configuration)["rowIdHighWaterMark"]
    assert (ids[0], mark + 1) == (
        0,
        sum(json.loads(stats)["numRecords"] for stats in clone.snapshot().files()["stats"].to_pylist()),
    )
    assert set(clone.snapshot().files()["default_row_commit_version"].to_pylist()) == {0}
    log.deep_clone(target, mode="replace")
    assert min(clone.refresh().files()["base_row_id"].to_pylist()) == mark + 1
    assert set(clone.snapshot().files()["default_row_commit_version"].to_pylist()) == {1}


@pytest.mark.parametrize("name", ["dv_basic", "dv_optimized"])
def test_deletion_vectors_are_copied_each_file_once_and_outlive_a_vacuum(golden_table, tmp_path, name):
    root, target = golden_table(name), tmp_path / "clone"
    log = DeltaLog.for_table(str(root))
    vectors = [vector for vector in log.snapshot().files()["deletion_vector"].to_pylist() if vector]
    log.deep_clone(str(target))
    shutil.rmtree(root)
    clone = DeltaLog.for_table(str(target), clock=lambda: 4_000_000_000_000)
    made = [vector for vector in clone.snapshot().files()["deletion_vector"].to_pylist() if vector]
    told = ["offset", "size_in_bytes", "cardinality"]
    assert sorted([vector[key] for key in told] for vector in made) == sorted(
        [vector[key] for key in told] for vector in vectors
    )
    assert {vector["storage_type"] for vector in made} == {"u"}
    files = {vector["path_or_inline_dv"] for vector in vectors}
    assert len(list(target.rglob("*.bin"))) == len(files) == len({vector["path_or_inline_dv"] for vector in made})
    before = rows_of(target)
    clone.vacuum(0, enforce_retention=False)
    assert rows_of(target) == before


def test_a_shallow_clone_is_cloned_deeply_through_its_source(source, tmp_path):
    source.log.shallow_clone(str(tmp_path / "shallow"))
    expected = rows_of(source.log)
    DeltaLog.for_table(str(tmp_path / "shallow")).deep_clone(str(tmp_path / "deep"))
    shutil.rmtree(source.root)
    shutil.rmtree(tmp_path / "shallow")
    assert rows_of(tmp_path / "deep") == expected


def test_a_table_is_cloned_to_another_kind_of_storage(source, s3):
    uri = f"{s3.uri}/a clone"
    source.log.deep_clone(uri, storage_options=s3.options)
    expected = rows_of(source.log)
    shutil.rmtree(source.root)
    assert rows_of(DeltaLog.for_table(uri, s3.options)) == expected
    found = DeltaTable(uri.replace(" ", "%20"), storage_options=s3.other_options).to_pyarrow_table()
    assert sorted(found["n"].to_pylist()) == [0, 1, 2]
    in_memory = DeltaLog(InMemoryLogStore("memory://clone"))
    DeltaLog.for_table(uri, s3.options).deep_clone(in_memory)
    assert rows_of(in_memory) == expected


# -- onto an existing table


def test_a_table_in_the_way_is_refused_left_or_replaced(source, tmp_path, duckdb_connection):
    target = tmp_path / "clone"
    source.log.deep_clone(str(target), version=1)
    before = data_files(target)
    with pytest.raises(TableExistsError):
        source.log.deep_clone(str(target))
    assert source.log.deep_clone(str(target), mode="ignore").created is False
    assert source.log.deep_clone(str(target), mode="replace", dry_run=True).created is False
    assert data_files(target) == before
    identity = DeltaLog.for_table(str(target)).snapshot().metadata.id
    result = source.log.deep_clone(str(target), mode="replace")
    assert (result.version, result.removed_files, result.copied_files) == (1, 2, 3)
    assert result.removed_bytes == sum(path.stat().st_size for path in before)
    assert by_duckdb(duckdb_connection, target) == rows_of(target) == rows_of(source.log)
    clone = DeltaLog.for_table(str(target))
    assert clone.snapshot().metadata.id == identity
    assert clone.snapshot(0).to_arrow().read_all().num_rows == 2  # its history stays


def test_a_table_takes_back_an_older_version_of_its_own(source):
    source.log.deep_clone(str(source.root), version=1, mode="replace")
    assert sorted(DeltaTable(source.root).to_pyarrow_table()["n"].to_pylist()) == [0, 1]


def test_rows_of_a_table_that_only_takes_appends_are_not_replaced(source, tmp_path):
    target = str(tmp_path / "clone")
    source.log.deep_clone(target, properties={"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyTableError):
        source.log.deep_clone(target, mode="replace")
    assert DeltaLog.for_table(target).snapshot().version == 0


# -- what goes wrong


def test_a_file_that_is_gone_or_changed_is_a_typed_error_and_nothing_is_left(source, tmp_path):
    target, file = tmp_path / "clone", next(source.root.rglob("1 *.parquet"))
    content = file.read_bytes()
    file.write_bytes(content + b"x")
    with pytest.raises(CorruptDataFileError, match=rf"{len(content) + 1} bytes, and the log says {len(content)}") as changed:
        source.log.deep_clone(str(target))
    assert (changed.value.table, "1%20" in changed.value.file) == (str(source.root), True)
    assert not target.exists()
    file.unlink()
    with pytest.raises(MissingDataFileError):
        source.log.deep_clone(str(target))
    assert not target.exists()


def test_a_file_of_deletion_vectors_that_is_too_short_or_gone_is_a_typed_error(golden_table, tmp_path):
    root = golden_table("dv_basic")
    vectors = next(root.rglob("*.bin"))
    vectors.write_bytes(vectors.read_bytes()[:10])
    with pytest.raises(CorruptDataFileError, match="the log says at least"):
        DeltaLog.for_table(str(root)).deep_clone(str(tmp_path / "clone"))
    vectors.unlink()
    with pytest.raises(MissingDataFileError):
        DeltaLog.for_table(str(root)).deep_clone(str(tmp_path / "clone"))
    assert not (tmp_path / "clone").exists()


def test_a_file_outside_of_the_source_is_not_copied(source, tmp_path):
    secret = tmp_path / "secret.parquet"
    pq.write_table(pa.table({"n": [7]}), secret)
    path = next(source.root.rglob("1 *.parquet"))
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(PathOutsideTableError):
        source.log.deep_clone(str(tmp_path / "clone"))
    assert not (tmp_path / "clone").exists()


def test_a_failed_replacement_leaves_the_table_as_it_was(source, tmp_path):
    target = tmp_path / "clone"
    source.log.deep_clone(str(target), version=1)
    before, rows = data_files(target), rows_of(target)
    next(source.root.rglob("2 *.parquet")).unlink()
    with pytest.raises(MissingDataFileError):
        source.log.deep_clone(str(target), mode="replace")
    assert data_files(target) == before
    assert not [path for path in target.rglob("write-*") if path.is_dir() and not any(path.iterdir())]
    assert (DeltaLog.for_table(str(target)).snapshot().version, rows_of(target)) == (0, rows)


class CommitsInBetween(LocalFileCopier):
    """Another writer commits to the target while files are copied."""

    def __init__(self, write):
        self._write = write

    def copy(self, *arguments):
        copied = super().copy(*arguments)
        self._write()
        return copied


def test_a_commit_of_somebody_else_meanwhile_is_a_conflict_and_the_copies_are_deleted(source, tmp_path):
    target = str(tmp_path / "clone")
    source.log.deep_clone(target, version=1)
    before = data_files(target)

    def write():
        DeltaLog.for_table(target).alter().set_properties({"user.x": "1"})

    with pytest.raises(ConcurrentWriteError):
        source.log.deep_clone(target, mode="replace", copier=CommitsInBetween(write))
    assert data_files(target) == before
    with pytest.raises(TableExistsError):
        source.log.deep_clone(
            str(tmp_path / "new"), copier=CommitsInBetween(lambda: source.log.shallow_clone(str(tmp_path / "new")))
        )
    assert not [path for path in data_files(tmp_path / "new") if path.suffix == ".parquet"]


# -- killed


def clone_in_a_process(source, target, number, count):
    """Run a clone that is killed before the event with this number below the target."""
    counted = kill_at(target, number)
    DeltaLog.for_table(source).deep_clone(target, mode="replace")
    Path(count).write_text(str(counted()))


def clone_killed_while_reading(source, target, number):
    """Run a clone that is killed before this number of reads of a source file; a file takes many reads."""
    reads = itertools.count()
    read = FileCopies._bytes

    def count(*arguments):
        if next(reads) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return read(*arguments)

    FileCopies._bytes, file_copier._BUFFER = count, 100
    DeltaLog.for_table(source).deep_clone(target, mode="replace")


def run(function, *arguments):
    """Call the function in a separate process; returns how that ended."""
    given = ", ".join(repr(argument if isinstance(argument, int) else str(argument)) for argument in arguments)
    code = f"from tests.core.operations.test_deep_clone import *; {function.__name__}({given})"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=os.environ, check=False, capture_output=True, text=True)
    assert ended.returncode in {0, -signal.SIGKILL}, ended.stderr
    return ended.returncode


def check_after_kill(source, target, before):
    """Check that the target is unchanged or complete, and that another run succeeds and lets a vacuum remove the leftovers.

    Returns the number of copied files that the kill left without a commit.
    """
    expected, log = rows_of(source.log), DeltaLog.for_table(str(target))
    found = rows_of(target) if log.exists() else None
    left = len([path for path in data_files(target) if path.suffix == ".parquet"]) - (before or Counter()).total()
    if found != expected:
        assert found == before
        source.log.deep_clone(str(target), mode="replace")
    later = DeltaLog.for_table(str(target), clock=lambda: source.log.clock() + 30 * DAY)
    later.vacuum()
    assert rows_of(target) == expected
    live = {target / path for path in later.snapshot().files()["path"].to_pylist()}
    assert {path for path in data_files(target) if path.suffix == ".parquet"} == live
    return left if found != expected else 0


@pytest.mark.slow
@pytest.mark.parametrize("is_replaced", [False, True], ids=["new", "replaced"])
def test_a_clone_killed_at_any_place_is_no_new_table_or_a_whole_one_and_a_vacuum_finds_its_copies(
    source, tmp_path, is_replaced
):
    def target(name):
        if is_replaced:
            source.log.deep_clone(str(tmp_path / name), version=1)
        return tmp_path / name

    def rows_before(root):
        return rows_of(root) if is_replaced else None

    assert run(clone_in_a_process, source.root, target("counted"), -1, tmp_path / "count") == 0
    left = []
    for number in range(int((tmp_path / "count").read_text())):
        root = target(f"event {number}")
        before = rows_before(root)
        assert run(clone_in_a_process, source.root, root, number, tmp_path / "count") == -signal.SIGKILL
        left.append(check_after_kill(source, root, before))
    assert {0, 3} <= set(left)  # killed before the first copy, and between the last one and the commit
    for number in (1, 4, 9):
        root = target(f"read {number}")
        before = rows_before(root)
        assert run(clone_killed_while_reading, source.root, root, number) == -signal.SIGKILL
        assert check_after_kill(source, root, before) > 0
