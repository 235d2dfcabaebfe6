import os
from collections import Counter
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_delta.core import DeltaLog
from airflow_delta.core.errors import (
    ChangeDataNotRecordedError,
    ChangeSchemaError,
    InvalidPredicateError,
    InvalidStatementError,
    SchemaMismatchError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
)
from airflow_delta.core.log.file_names import commit_path
from tests.core.builders import HandmadeLog, metadata, remove, schema_string

ENABLED = {"delta.enableChangeDataFeed": "true"}
START = 1_700_000_000_000  # ms


def rows(*pairs):
    ids, texts = zip(*pairs, strict=True) if pairs else ((), ())
    return pa.table({"id": pa.array(ids, pa.int64()), "s": pa.array(texts, pa.string())})


def write(path, data, **options):
    write_deltalake(str(path), data, configuration=ENABLED, **options)


@pytest.fixture
def table(tmp_path):
    """Version 0 has two rows; 1 updates one of them, 2 deletes the other, 3 inserts a new one; a second apart."""
    write(tmp_path, rows((1, "a"), (2, "b")))
    other = DeltaTable(str(tmp_path))
    other.update(updates={"s": "'c'"}, predicate="id = 2")
    other.delete("id = 1")
    write(tmp_path, rows((3, "d")), mode="append")
    for version in range(4):
        then = (START + 1000 * version) / 1000
        os.utime(tmp_path / commit_path(version), (then, then))
    return DeltaLog.for_table(str(tmp_path))


def found(reader):
    return sorted((row["_commit_version"], row["_change_type"], row["id"], row["s"]) for row in reader.read_all().to_pylist())


INSERTED = [(0, "insert", 1, "a"), (0, "insert", 2, "b")]
UPDATED = [(1, "update_postimage", 2, "c"), (1, "update_preimage", 2, "b")]
LATER = [(2, "delete", 1, "a"), (3, "insert", 3, "d")]


def test_every_change_is_there_from_the_first_version_to_the_latest(table):
    assert found(table.changes(0)) == INSERTED + UPDATED + LATER


def test_both_ends_are_included(table):
    assert found(table.changes(1, 2)) == UPDATED + LATER[:1]


def test_the_columns_are_the_tables_and_three_more(table):
    changes = table.changes(3).read_all()
    assert changes.column_names == ["id", "s", "_change_type", "_commit_version", "_commit_timestamp"]
    assert changes["_commit_timestamp"].to_pylist() == [datetime.fromtimestamp((START + 3000) / 1000, UTC)]


def test_only_the_columns_wanted_are_read_though_others_are_asked_about(table):
    changes = table.changes(0, columns=["s"], where="id = 2 AND _change_type = 'update_postimage'").read_all()
    assert changes.select(["s", "_commit_version"]).to_pylist() == [{"s": "c", "_commit_version": 1}]


def test_times_name_the_versions_that_lie_between_them(table):
    between = table.changes("2023-11-14T22:13:20.500", "2023-11-14T22:13:22.500")
    assert found(between) == UPDATED + LATER[:1]


@pytest.mark.parametrize(
    ("start", "end", "error"),
    [
        (2, 1, InvalidStatementError),
        (4, None, VersionNotFoundError),
        (0, 9, VersionNotFoundError),
        (-1, None, VersionNotFoundError),
        ("2030-01-01", None, TimestampOutOfRangeError),
        (0, "2020-01-01", TimestampOutOfRangeError),
        ("yesterday", None, InvalidStatementError),
    ],
)
def test_a_range_that_the_table_does_not_have_is_refused(table, start, end, error):
    with pytest.raises(error):
        table.changes(start, end)


def test_a_version_that_is_not_there_is_reported_with_those_that_are(table, tmp_path):
    table.checkpoint()
    for version in range(3):
        (tmp_path / commit_path(version)).unlink()
    with pytest.raises(VersionNotFoundError) as caught:
        DeltaLog.for_table(str(tmp_path)).changes(9)
    assert (caught.value.earliest, caught.value.latest) == (3, 3)


def test_an_unknown_column_and_an_undecidable_condition_are_refused_at_once(table):
    with pytest.raises(SchemaMismatchError):
        table.changes(0, columns=["x"])
    with pytest.raises(InvalidPredicateError):
        table.changes(0, where="sin(id) > 0")


def test_a_changelog_says_the_kinds_and_lets_rows_go_before_others_come(table):
    changes = table.changes(0, as_changelog=True).read_all()
    kinds = changes.select(["_row_kind", "_commit_version", "id"]).to_pylist()
    assert [tuple(row.values()) for row in kinds] == [
        ("+I", 0, 1),
        ("+I", 0, 2),
        ("-U", 1, 2),
        ("+U", 1, 2),
        ("-D", 2, 1),
        ("+I", 3, 3),
    ]


def test_a_range_that_begins_before_the_feed_was_enabled_is_refused(tmp_path):
    write_deltalake(str(tmp_path), rows((1, "a")))
    DeltaTable(str(tmp_path)).alter.set_table_properties(ENABLED)
    log = DeltaLog.for_table(str(tmp_path))
    with pytest.raises(ChangeDataNotRecordedError) as caught:
        log.changes(0)
    assert caught.value.version == 0
    assert found(log.changes(1)) == []


def test_a_range_in_which_the_feed_was_switched_off_is_refused_though_it_is_on_again():
    log = HandmadeLog().create(**ENABLED)
    log.commit(metadata()).commit(metadata(**ENABLED))
    with pytest.raises(ChangeDataNotRecordedError) as caught:
        log.log.changes(0)
    assert caught.value.version == 1


def test_a_column_that_came_later_is_null_before(tmp_path):
    write(tmp_path, rows((1, "a")))
    write_deltalake(str(tmp_path), rows((2, "b")).append_column("n", [[7]]), mode="append", schema_mode="merge")
    changes = DeltaLog.for_table(str(tmp_path)).changes(0, columns=["id", "n"]).read_all()
    assert sorted(zip(changes["id"].to_pylist(), changes["n"].to_pylist(), strict=True)) == [(1, None), (2, 7)]


@pytest.mark.parametrize(
    ("after", "difference"),
    [
        (schema_string(n="long"), "id: gone"),
        (schema_string(id="string"), "id: bigint, then string"),
    ],
)
def test_a_column_that_went_or_became_another_is_named(after, difference):
    log = HandmadeLog().create(**ENABLED)
    log.commit(metadata(after, **ENABLED))
    with pytest.raises(ChangeSchemaError) as caught:
        log.log.changes(0)
    assert (caught.value.version, caught.value.read_version, caught.value.differences) == (0, 1, (difference,))
    assert log.log.changes(1).read_all().num_rows == 0


def test_a_widened_column_is_shown_in_its_new_type():
    log = HandmadeLog().create(**ENABLED)
    log.commit(metadata(schema_string(id="integer"), **ENABLED)).commit(metadata(schema_string(id="long"), **ENABLED))
    assert log.log.changes(1).schema.field("id").type == pa.int64()


def test_a_removed_file_that_does_not_tell_its_partition_is_no_guess():
    log = HandmadeLog().create(partition_columns=["p"], **ENABLED).commit(remove("p=1/f"))
    with pytest.raises(ChangeDataNotRecordedError, match="p=1/f"):
        log.log.changes(1).read_all()


def test_the_version_of_a_run_is_the_newest_that_says_so(tmp_path):
    for day in ("2024-01-01", "2024-01-02", "2024-01-01"):
        record = {"airflowDelta": {"dag_id": "d", "task_id": "t", "logical_date": f"{day}T00:00:00+00:00"}}
        write(tmp_path, rows((1, day)), mode="append", commit_properties=CommitProperties(custom_metadata=record))
    log = DeltaLog.for_table(str(tmp_path))
    assert log.produced_by(dag_id="d", logical_date="2024-01-02T01:00:00+01:00").version == 1
    assert log.produced_by(dag_id="d", task_id="t", logical_date="2024-01-01").version == 2
    assert log.produced_by(dag_id="d", task_id="other") is None


operations = st.one_of(
    st.tuples(st.just("append"), st.lists(st.integers(0, 9), max_size=4)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("update"), st.integers(0, 9)),
    st.tuples(st.just("merge"), st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)),
)


def apply(path, step, kind, argument):
    table = DeltaTable(path)
    if kind == "append":
        write_deltalake(path, rows(*((key, f"append {step}") for key in argument)), mode="append")
    elif kind == "delete":
        table.delete(f"id = {argument}")
    elif kind == "update":
        table.update(updates={"s": f"'update {step}'"}, predicate=f"id > {argument}")
    else:
        source = rows(*((key, f"merge {step}") for key in argument))
        merge = table.merge(source, "t.id = u.id", source_alias="u", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()


@settings(max_examples=15, deadline=None)
@given(steps=st.lists(operations, min_size=1, max_size=5))
def test_the_changelog_of_a_version_makes_the_table_at_it_of_the_table_before_it(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("table")
    write(path, rows((1, "a"), (1, "a"), (5, "b")))
    for step, (kind, argument) in enumerate(steps):
        apply(str(path), step, kind, argument)
    log = DeltaLog.for_table(str(path))
    known = Counter()
    for version in range(log.snapshot().version + 1):
        for row in log.changes(version, version, as_changelog=True).read_all().to_pylist():
            known[row["id"], row["s"]] += 1 if row["_row_kind"].startswith("+") else -1
            assert min(known.values()) >= 0
        rows_now = log.snapshot(version).to_arrow().read_all().to_pylist()
        assert +known == Counter((row["id"], row["s"]) for row in rows_now)


def test_a_data_files_own_change_type_column_is_ignored(tmp_path):
    write(tmp_path, rows((1, "a")))
    log = DeltaLog.for_table(str(tmp_path))
    path = tmp_path / log.snapshot().files()["path"][0].as_py()
    pq.write_table(rows((1, "a")).append_column("_change_type", pa.array(["delete"])), path)
    assert found(log.changes(0)) == [(0, "insert", 1, "a")]


def test_a_commit_with_an_impossible_time_has_the_time_of_its_file():
    times = {"delta.enableInCommitTimestamps": "true"}
    info = {"commitInfo": {"inCommitTimestamp": 10**18, "timestamp": 0, "operation": "WRITE"}}
    log = HandmadeLog().create(**ENABLED, **times).commit(info)
    assert log.log.changes(1).read_all().num_rows == 0
    assert log.log.history()[0].timestamp == 2_000
