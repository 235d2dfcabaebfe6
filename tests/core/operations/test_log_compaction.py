"""A log compaction file equals its commits reconciled, for a plain Python reader, for us and for other engines."""

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.actions import DomainMetadata, SetTransaction, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, VersionNotFoundError
from airflow_delta.core.log.commit_reader import read_commits
from airflow_delta.core.log.commit_writer import commit_json
from airflow_delta.core.log.compaction_mark import KEEPS_ALL_TOMBSTONES
from airflow_delta.core.log.file_names import commit_path, compacted_path
from airflow_delta.core.operations.log_compaction import reconciled
from tests.core.builders import HandmadeLog, add, deletion_vector, metadata, protocol, remove

PATHS = st.sampled_from(["a", "b", "c"])
DELETION_VECTORS = st.sampled_from([None, deletion_vector("x"), deletion_vector("y")])


def handmade(*commits):
    log = HandmadeLog().create(**{"delta.checkpointInterval": "1000"})
    for actions in commits:
        log.commit(*actions)
    return log


def lines(log, start, end):
    mark, *found = log.store.read(compacted_path(start, end)).splitlines(keepends=True)
    assert mark == KEEPS_ALL_TOMBSTONES
    return list(map(json.loads, found))


def test_the_example_of_the_protocol():
    log = handmade(
        [add("f1")],
        [add("f2"), remove("f1")],
        [add("f3"), add("f4"), {"txn": {"appId": "app", "version": 4389}}],
        [remove("f3"), {"txn": {"appId": "app", "version": 4390}}],
    )
    result = log.log.compact_log(2, 4)
    assert (result.start, result.end, result.path, result.actions) == (2, 4, compacted_path(2, 4), 5)
    found = lines(log, 2, 4)
    assert found[0] == {"txn": {"appId": "app", "version": 4390}}
    assert [(key, action["path"]) for line in found[1:] for key, action in line.items()] == [
        ("remove", "f1"), ("remove", "f3"), ("add", "f2"), ("add", "f4"),
    ]  # fmt: skip


def test_what_cancels_something_before_the_range_is_kept_and_commit_infos_are_not():
    domain = {"domain": "d", "configuration": "", "removed": True}
    log = handmade(
        [add("a"), {"domainMetadata": {**domain, "removed": False}}],
        [{"commitInfo": {"timestamp": 1, "operation": "X"}}, remove("a"), {"domainMetadata": domain}],
        [protocol(1, 2), metadata(), protocol(1, 2) and {"commitInfo": {"timestamp": 2}}],
    )
    log.log.compact_log(2, 3)
    assert {next(iter(line)) for line in lines(log, 2, 3)} == {"protocol", "metaData", "domainMetadata", "remove"}
    assert lines(log, 2, 3)[2] == {"domainMetadata": domain}


def test_a_second_call_changes_nothing():
    log = handmade([add("a")], [add("b")])
    log.log.compact_log(0, 2)
    written = log.store.read(compacted_path(0, 2))
    assert log.log.compact_log(0, 2).actions is None
    assert log.store.read(compacted_path(0, 2)) == written


def test_by_default_it_begins_after_what_is_covered_and_ends_with_the_latest_commit():
    log = handmade(*([add(str(number))] for number in range(9)))
    assert log.log.compact_log(end=3).path == compacted_path(0, 3)
    assert log.log.compact_log(end=4).path is None  # one commit alone
    assert log.log.compact_log().path == compacted_path(4, 9)
    assert log.log.compact_log().path is None
    log.commit(add("x")).commit(add("y"))
    log.log.checkpoint(10)
    assert log.log.compact_log().path is None
    log.commit(add("z"))
    assert log.log.compact_log().path == compacted_path(11, 12)


def test_a_range_that_is_not_there_is_refused():
    log = handmade([add("a")], [add("b")], [add("c")])
    log.log.checkpoint()
    with pytest.raises(VersionNotFoundError):
        log.log.compact_log(1, 4)
    with pytest.raises(InvalidStatementError):
        log.log.compact_log(3, 2)
    log.remove_commits(1)
    with pytest.raises(VersionNotFoundError) as missing:
        log.log.compact_log(1, 3)
    assert missing.value.version == 1


@given(
    st.lists(
        st.dictionaries(
            st.tuples(
                PATHS, DELETION_VECTORS.map(lambda deletion_vector: deletion_vector and deletion_vector["pathOrInlineDv"])
            ),
            st.booleans(),
            max_size=4,
        ),
        min_size=2,
        max_size=6,
    ),
    st.data(),
)
def test_the_state_is_the_same_with_the_compacted_file_in_the_place_of_its_commits(commits, data):
    log = handmade(
        *(
            [
                (add if is_add else remove)(path, deletionVector=name and deletion_vector(name), partitionValues={})
                for (path, name), is_add in commit.items()
            ]
            for commit in commits
        )
    )
    start = data.draw(st.integers(0, len(commits) - 1))
    end = data.draw(st.integers(start + 1, len(commits)))
    content = commit_json(reconciled(read_commits(log.store, range(start, end + 1))))
    replaced = HandmadeLog()
    for version in range(len(commits) + 1):
        text = log.store.read(commit_path(version)) if not start <= version <= end else b"" if version != end else content
        replaced.commit(*text.decode().splitlines())
    assert state(replaced) == state(log)


def state(log):
    batch = reconciled(read_commits(log.store, range(log.next_version)))
    return (
        batch.protocol,
        batch.metadata,
        *(sorted(map(str, files.to_pylist())) for files in (batch.adds, batch.removes)),
    )


def test_other_engines_read_a_table_with_compacted_commits(real_table, duckdb_connection):
    table = real_table(**{"delta.checkpointInterval": "1000"})
    for number, partition in enumerate(["a b%", None, "é", "x"]):
        table.commit(adds=table.add(f"f{number}.parquet", number, partition))
    gone = table.log.refresh().files("n = 0")
    table.commit(removes=removes_of(gone, deletion_timestamp=table.log.clock(), data_change=True))
    table.commit(transactions=[SetTransaction(app_id="app", version=3)])
    assert table.log.compact_log(1, 3).actions == 3
    assert table.log.compact_log().path == compacted_path(4, 6)
    rows = [(1, None), (2, "é"), (3, "x")]
    other = DeltaTable(table.root)
    assert sorted(zip(*other.to_pyarrow_table().select(["n", "p"]).to_pydict().values(), strict=True)) == rows
    assert duckdb_connection.sql(f"SELECT n, p FROM delta_scan('{table.root}') ORDER BY n").fetchall() == rows
    ours = DeltaLog.for_table(str(table.root)).refresh().to_arrow(["n", "p"]).read_all().sort_by("n")
    assert list(zip(*ours.to_pydict().values(), strict=True)) == rows


@pytest.fixture
def compacted_by_delta_rs(tmp_path):
    """Rows 1 to 7, of which 1 and 2 were deleted ten days ago in version 3; delta-rs compacted 2 to 4, behind a checkpoint."""
    path = tmp_path / "table"
    for rows in ([1, 2], [3, 4]):
        write_deltalake(path, pa.table({"id": rows}), mode="append")
    DeltaTable(path).create_checkpoint()
    write_deltalake(path, pa.table({"id": [5, 6]}), mode="append")
    DeltaTable(path).delete("id <= 2")
    write_deltalake(path, pa.table({"id": [7]}), mode="append")
    commit = path / commit_path(3)
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        action.get("remove", {"deletionTimestamp": 0})["deletionTimestamp"] -= 10 * 86_400_000
    commit.write_text("\n".join(map(json.dumps, actions)))
    DeltaTable(path).compact_logs(2, 4)
    assert b'"remove"' not in (path / compacted_path(2, 4)).read_bytes()
    return path


def ids(path, by=DeltaTable):
    rows = DeltaTable(path).to_pyarrow_table() if by is DeltaTable else by(path)
    return sorted(rows["id"].to_pylist())


def ours(path):
    return DeltaLog.for_table(str(path)).snapshot().to_arrow().read_all()


def test_rows_deleted_long_ago_stay_deleted_where_another_engine_compacted_without_expired_tombstones(compacted_by_delta_rs):
    assert ids(compacted_by_delta_rs, ours) == [3, 4, 5, 6, 7]
    DeltaLog.for_table(str(compacted_by_delta_rs)).checkpoint()
    assert ids(compacted_by_delta_rs) == ids(compacted_by_delta_rs, ours) == [3, 4, 5, 6, 7]


def test_commits_that_another_engine_compacted_without_tombstones_are_compacted_again(compacted_by_delta_rs):
    write_deltalake(compacted_by_delta_rs, pa.table({"id": [8]}), mode="append")
    log = DeltaLog.for_table(str(compacted_by_delta_rs))
    assert log.compact_log().path == compacted_path(2, 5)
    assert log.compact_log().path is None
    assert ids(compacted_by_delta_rs) == ids(compacted_by_delta_rs, ours) == [3, 4, 5, 6, 7, 8]


def test_where_another_engine_has_compacted_all_of_them_the_range_ends_before(compacted_by_delta_rs):
    log = DeltaLog.for_table(str(compacted_by_delta_rs))
    assert log.compact_log().path == compacted_path(2, 3)
    assert log.compact_log().path is None
    assert ids(compacted_by_delta_rs, ours) == [3, 4, 5, 6, 7]


def test_other_engines_read_what_the_compacted_file_says_and_ignore_its_mark(compacted_by_delta_rs, duckdb_connection):
    """Engines may read either; so the compacted file is renamed to replace its commits."""
    path = compacted_by_delta_rs
    (path / compacted_path(2, 4)).unlink()
    DeltaLog.for_table(str(path)).compact_log(2, 4)
    for version in (3, 4):
        (path / commit_path(version)).unlink()
    (path / compacted_path(2, 4)).rename(path / commit_path(2))
    assert ids(path) == ids(path, ours) == [3, 4, 5, 6, 7]
    rows = duckdb_connection.sql(f"SELECT id FROM delta_scan('{path}') ORDER BY id").fetchall()
    assert rows == [(3,), (4,), (5,), (6,), (7,)]


def test_a_domain_that_is_there_stays():
    log = handmade([add("a")], [{"domainMetadata": {"domain": "d", "configuration": "1", "removed": False}}])
    log.log.compact_log(1, 2)
    assert log.log.refresh().domains == {"d": DomainMetadata(domain="d", configuration="1")}
