"""The MERGE statement from the outside: what other engines then read, what the log says, what is left after a failure."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    AppendOnlyTableError,
    ConstraintViolatedError,
    ExpectationFailedError,
    MissingDataFileError,
    MultipleSourceRowsMatchedError,
    SchemaMismatchError,
    TableNotFoundError,
)
from airflow_delta.core.statements import (
    FileSource,
    MatchedDelete,
    MatchedUpdate,
    MergeStatement,
    NotMatchedInsert,
    SqlSource,
    UpdateStatement,
)
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.staged_changes import scan_positions
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.io import tasks
from tests.slow_cases import slow_after
from tests.spark.session_settings import session_settings

THREE = pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]})


def active_files(table):
    return set(DeltaLog.for_table(table).snapshot().files()["path"].to_pylist())


def everything(table):
    return {str(path.relative_to(table)) for path in Path(table).rglob("*")}


def test_an_upsert_updates_what_is_there_and_inserts_what_is_not(run_merge, reference_rows, table, check_statistics):
    write_deltalake(table, THREE)

    result = run_merge("VALUES (2L, 'B'), (9L, 'i'), (NULL, 'n') AS t(id, v)")

    assert reference_rows() == [(None, "n"), (1, "a"), (2, "B"), (3, "c"), (9, "i")]
    assert (result.version, result.read_version, result.committed, result.operation) == (1, 0, True, "MERGE")
    expected = {
        "numSourceRows": 3,
        "numTargetRowsInserted": 2,
        "numTargetRowsUpdated": 1,
        "numTargetRowsDeleted": 0,
        "numTargetRowsCopied": 2,
        "numOutputRows": 5,
        "numTargetFilesRemoved": 1,
    }
    assert {name: result.metrics[name] for name in expected} == expected
    info = DeltaLog.for_table(table).snapshot().commit_info
    assert json.loads(info.operation_parameters["predicate"]) == ["target.id = source.id"]
    assert json.loads(info.operation_parameters["matchedPredicates"]) == [{"actionType": "update"}]
    assert json.loads(info.operation_parameters["notMatchedPredicates"]) == [{"actionType": "insert"}]
    assert info.operation_metrics["numTargetRowsInserted"] == "2"
    check_statistics()


def test_the_first_clause_whose_condition_holds_is_taken(run_merge, reference_rows, table, check_statistics):
    write_deltalake(table, pa.table({"id": range(8), "v": [f"v{i}" for i in range(8)], "n": pa.array([0] * 8, pa.int32())}))

    result = run_merge(
        "SELECT id, concat('s', id) AS v FROM range(2, 12)",
        clauses=[
            MatchedDelete(condition="source.id = 2"),
            MatchedUpdate(condition="target.id < 5", assignments={"V": "source.v", "n": "target.n + 1"}),
            MatchedDelete(condition="target.v = 'v5'"),
            MatchedUpdate(condition="target.id <> 7", assignments={"target.n": "CAST(source.id * 100 AS BIGINT)"}),
            NotMatchedInsert(condition="source.id = 8", assignments={"id": "source.id", "v": "upper(source.v)"}),
            NotMatchedInsert(condition="source.id < 11", assignments={"id": "source.id", "n": "-1"}),
        ],
    )

    assert reference_rows() == [
        (0, "v0", 0),
        (1, "v1", 0),
        (3, "s3", 1),
        (4, "s4", 1),
        (6, "v6", 600),
        (7, "v7", 0),
        (8, "S8", None),
        (9, None, -1),
        (10, None, -1),
    ]
    counts = [result.metrics[f"numTargetRows{name}"] for name in ("Updated", "Deleted", "Inserted", "Copied")]
    assert counts == [3, 2, 3, 3]
    assert result.metrics["numSourceRows"] == 10
    check_statistics()


def test_only_files_that_may_hold_a_key_are_read_and_only_those_with_a_change_rewritten(run_merge, reference_rows, table):
    for first in (0, 10, 20):
        write_deltalake(table, pa.table({"id": range(first, first + 5), "v": ["x"] * 5}), mode="append")
    before = active_files(table)
    unread = Path(table, DeltaLog.for_table(table).snapshot().files("id = 20")["path"][0].as_py())
    unread.rename(unread.with_suffix(".aside"))

    run_merge("VALUES (2L, 'y'), (7L, 'y') AS t(id, v)", clauses=MatchedUpdate())
    run_merge("VALUES (12L, 'y') AS t(id, v)", clauses=MatchedUpdate(condition="source.v = 'never'"))

    unread.with_suffix(".aside").rename(unread)
    assert len(before & active_files(table)) == 2
    assert [row for row in reference_rows() if row[1] == "y"] == [(2, "y")]


def test_a_condition_without_keys_joins_all_rows(run_merge, reference_rows, table):
    write_deltalake(table, THREE)
    run_merge(
        "SELECT 2L AS low", on="target.id >= source.low AND target.v <> 'c'", clauses=MatchedUpdate(assignments={"v": "'z'"})
    )
    assert reference_rows() == [(1, "a"), (2, "z"), (3, "c")]


@pytest.mark.parametrize(
    "on",
    [
        "target.id = source.id AND target.v = source.w",
        "target.id = cast(source.id AS string)",
        "target.id = source.id OR target.id = -source.id",
        "target.id <=> source.id AND target.id = source.id",
    ],
)
def test_any_condition_means_what_spark_says(run_merge, reference_rows, table, on):
    write_deltalake(table, THREE)
    run_merge("VALUES (2, 'b'), (-3, 'c'), (1, 'no') AS t(id, w)", on=on, clauses=MatchedUpdate(assignments={"v": "'z'"}))
    expected = {"AND target.v": {2}, "string": {1, 2}, "OR": {1, 2, 3}, "<=>": {1, 2}}
    updated = next(ids for mark, ids in expected.items() if mark in on)
    assert {row[0] for row in reference_rows() if row[1] == "z"} == updated


@pytest.mark.parametrize("on", ["target.v = +source.w", "+target.v = source.w", "+source.w = +target.v"])
def test_a_plus_before_a_text_makes_a_number_of_it(run_merge, reference_rows, table, on):
    write_deltalake(table, pa.table({"id": [1, 2], "v": ["1.50", "2"]}))
    run_merge("SELECT '1.500' AS w", on=on, clauses=MatchedUpdate(assignments={"v": "source.w"}))
    assert reference_rows() == [(1, "1.500"), (2, "2")]


def test_rows_change_their_partition_and_keep_what_is_not_assigned(run_merge, reference_rows, table, check_statistics):
    rows = pa.table({"id": range(6), "day": [dt.date(2020, 1, 1 + i % 2) for i in range(6)], "v": list("abcdef")})
    write_deltalake(table, rows, partition_by=["day"])

    result = run_merge(
        "SELECT id FROM range(1, 4)",
        clauses=MatchedUpdate(assignments={"day": "IF(target.v = 'b', DATE'2020-01-09', target.day)"}),
    )

    moved = [(1, dt.date(2020, 1, 9), "b")]
    assert [row for row in reference_rows() if row[1] == dt.date(2020, 1, 9)] == moved
    assert len(reference_rows()) == 6
    assert result.metrics["numTargetRowsUpdated"] == 3
    assert result.metrics["numTargetRowsCopied"] == 3
    assert result.metrics["numOutputRows"] == 6
    check_statistics()


def test_partition_values_prune_by_the_listed_keys(run_merge, reference_rows, table):
    rows = pa.table({"id": range(30), "day": [dt.date(2020, 1, 1 + i) for i in range(30)], "v": ["x"] * 30})
    write_deltalake(table, rows, partition_by=["day"])
    before = active_files(table)

    run_merge(
        "SELECT id, timestamp_seconds(1577880000 + id * 86400) AS t, 'y' AS v FROM VALUES (0L), (29L) AS k(id)",
        on="target.id = source.id AND target.day = to_date(source.t)",
        clauses=MatchedUpdate(assignments={"v": "source.v"}),
    )

    assert len(before - active_files(table)) == 2
    assert [row[0] for row in reference_rows() if row[2] == "y"] == [0, 29]


KEYS = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int32()),
        "text": ["a", "é", None],
        "bytes": [b"\x00", b"", None],
        "day": [dt.date(1969, 12, 31), dt.date(2020, 2, 29), None],
        "at": pa.array([-1, 1577836800123456, None], pa.timestamp("us", "UTC")),
        "local": pa.array([-1, 1577836800123456, None], pa.timestamp("us")),
        "amount": pa.array([Decimal("-1.50"), Decimal("99.99"), None], pa.decimal128(6, 2)),
        "real": [float("nan"), -0.0, None],
        "flag": [True, False, None],
        "part": pa.array([dt.date(2020, 1, 1), dt.date(2020, 1, 2), None]),
    }
)


@pytest.mark.parametrize("most_keys", slow_after(1, [1_000_000, 0]), ids=["keys at hand", "too many keys"])
def test_keys_of_every_type_match_as_spark_compares_them(run_merge, table, tmp_path, monkeypatch, most_keys):
    monkeypatch.setattr("airflow_delta.spark.dml.merge.source._MAX_KEYS", most_keys)
    write_deltalake(table, KEYS, partition_by=["part"])
    source = KEYS.set_column(0, "id", KEYS["id"].cast(pa.int64())).set_column(7, "real", [[float("nan"), 0.0, None]])
    pq.write_table(source, tmp_path / "source.parquet")
    for name in KEYS.column_names:
        matched = run_merge(
            FileSource(str(tmp_path / "source.parquet"), format="parquet"),
            on=f"target.{name} = source.{name}",
            clauses=[MatchedDelete(), NotMatchedInsert(assignments={"id": "source.id"})],
            dry_run=True,
        )
        assert (matched.metrics["numTargetRowsDeleted"], matched.metrics["numTargetRowsInserted"]) == (2, 1), name


@pytest.mark.parametrize(
    ("step", "most_keys", "partition_by"),
    [
        (1_000_000_000, 1_000_000, None),
        (1_000_000_000, 1_000_000, ["id"]),
        (100_000_000, 1_000_000, None),
        (1_000_000_000, 0, None),
    ],
    ids=["few keys", "partitions", "many keys", "too many keys"],
)
def test_keys_beyond_the_columns_range_match_nothing(
    run_merge, reference_rows, table, monkeypatch, step, most_keys, partition_by
):
    monkeypatch.setattr("airflow_delta.spark.dml.merge.source._MAX_KEYS", most_keys)
    write_deltalake(table, pa.table({"id": pa.array([0, 7], pa.int32()), "v": ["a", "b"]}), partition_by=partition_by)

    keys = f"SELECT id, 'new' AS v FROM range(0, 10000000000, {step})"
    run_merge(keys, clauses=MatchedUpdate(assignments={"v": "source.v"}))

    assert reference_rows(columns="id, v") == [(0, "new"), (7, "b")]


@pytest.mark.parametrize("most_keys", slow_after(1, [1_000_000, 0]), ids=["keys at hand", "too many keys"])
@pytest.mark.parametrize(
    ("column", "far"),
    [("day", "DATE'+20260-01-01'"), ("at", "timestamp_seconds(1767225600000)"), ("local", "TIMESTAMP_NTZ'+57970-01-01'")],
)
def test_times_beyond_the_years_of_python_are_keys_like_others(spark, run_merge, table, monkeypatch, most_keys, column, far):
    monkeypatch.setattr("airflow_delta.spark.dml.merge.source._MAX_KEYS", most_keys)
    write_deltalake(table, KEYS.select(["id", column]).slice(0, 2))
    source = f"SELECT 9 AS id, {far} AS {column} UNION ALL SELECT 8, CAST('2020-02-29' AS DATE)"
    source = source if column == "day" else source.replace("CAST('2020-02-29' AS DATE)", f"{far} - INTERVAL 1 DAY")
    for inserted, updated in ((2 - (column == "day"), int(column == "day")), (0, 2)):
        merged = run_merge(source, on=f"target.{column} = source.{column}")
        assert merged.metrics["numTargetRowsInserted"] == inserted
        assert merged.metrics["numTargetRowsUpdated"] == updated


@pytest.mark.parametrize(("on", "updated"), [("source.flag", 3), ("1 = 1", 3), ("target.id = 2", 1), ("false", 0)])
def test_a_condition_need_not_name_both_sides(run_merge, table, on, updated):
    write_deltalake(table, THREE)
    merged = run_merge("SELECT true AS flag", on=on, clauses=MatchedUpdate(assignments={"v": "'z'"}), dry_run=True)
    assert merged.metrics["numTargetRowsUpdated"] == updated


def test_a_comment_in_a_condition_ends_with_its_line(run_merge, reference_rows, table):
    write_deltalake(table, THREE)
    run_merge("VALUES (2L, 'B'), (3L, 'C') AS t(id, v)", on="target.id = source.id AND target.id < 3 -- not the last")
    assert reference_rows("id, v") == [(1, "a"), (2, "B"), (3, "C"), (3, "c")]


@pytest.mark.parametrize("ansi", slow_after(1, ["false", "true"]))
@pytest.mark.parametrize(
    ("fits", "is_too_large"),
    [
        pytest.param("5L", "3000000000L", id="bigint"),
        pytest.param("5.9D", "3000000000D", id="double"),
        pytest.param("CAST(5.5 AS FLOAT)", "CAST('NaN' AS FLOAT)", id="NaN"),
        pytest.param("5.75", "3000000000.75", id="decimal"),
    ],
)
def test_a_number_that_its_column_cannot_hold_fails_in_any_session(
    spark, run_merge, reference_rows, table, ansi, fits, is_too_large
):
    write_deltalake(table, pa.table({"id": [1], "v": pa.array([1], pa.int32())}))
    error = "CAST_OVERFLOW" if ansi == "true" else "does not fit the type int: it would be"
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        run_merge(f"SELECT 1L AS id, {fits} AS v")
        with pytest.raises(Exception, match=error):
            run_merge(f"SELECT 1L AS id, {is_too_large} AS v")
        statement = UpdateStatement(table=table, assignments={"v": is_too_large})
        with pytest.raises(Exception, match=error):
            update(spark, DeltaLog.for_table(table), statement)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert reference_rows() == [(1, 5)]


def test_names_may_hold_what_sql_must_quote(run_merge, reference_rows, table):
    names = ["id", "a.b", "sel`ect", "ÄÖ"]
    write_deltalake(table, pa.table([[1, 2], [1, 2], [1, 2], [1, 2]], names=names))
    run_merge("SELECT 2L AS id, 20L AS `A.B`, 20L AS `sel``ect`, 20L AS `äö`", on="target.`a.b` * 1 = source.id")
    assert reference_rows() == [(1, 1, 1, 1), (2, 20, 20, 20)]


# -- several matches


def test_several_matches_are_an_error_whatever_the_clauses_say(run_merge, reference_rows, table):
    write_deltalake(table, THREE)
    before = everything(table)
    twice = "VALUES (2L, 'x'), (2L, 'y'), (3L, 'z') AS t(id, v)"
    for clauses in (
        [MatchedUpdate()],
        [MatchedUpdate(condition="source.v = 'x'")],
        [MatchedDelete(condition="source.v = 'x'")],
    ):
        with pytest.raises(MultipleSourceRowsMatchedError) as raised:
            run_merge(twice, clauses=clauses)
        assert raised.value.rows == 1
    assert everything(table) == before
    assert reference_rows(version=0) == [(1, "a"), (2, "b"), (3, "c")]


def test_several_matches_do_not_matter_to_one_unconditional_delete_nor_to_inserts(run_merge, reference_rows, table):
    write_deltalake(table, THREE)
    result = run_merge(
        "VALUES (2L, 'x'), (2L, 'y'), (8L, 'z'), (8L, 'z') AS t(id, v)", clauses=[MatchedDelete(), NotMatchedInsert()]
    )
    assert reference_rows() == [(1, "a"), (3, "c"), (8, "z"), (8, "z")]
    assert (result.metrics["numTargetRowsDeleted"], result.metrics["numTargetRowsInserted"]) == (1, 2)
    run_merge("VALUES (8L, 'q'), (1L, 'q'), (1L, 'r'), (7L, 'n') AS t(id, v)", clauses=NotMatchedInsert())
    assert reference_rows() == [(1, "a"), (3, "c"), (7, "n"), (8, "z"), (8, "z")]


def test_equal_source_rows_that_match_nothing_are_no_error(run_merge, reference_rows, table):
    write_deltalake(table, THREE)
    run_merge("VALUES (7L, 'x'), (7L, 'x'), (NULL, 'n'), (NULL, 'n'), (1L, 'A') AS t(id, v)")
    assert reference_rows() == [(None, "n"), (None, "n"), (1, "A"), (2, "b"), (3, "c"), (7, "x"), (7, "x")]


# -- nothing to do, nothing done


def test_a_merge_that_changes_nothing_commits_nothing(run_merge, table):
    write_deltalake(table, THREE)
    before = everything(table)
    for query in ("VALUES (9L, 'x') AS t(id, v)", "SELECT 1L AS id, 'x' AS v WHERE false"):
        result = run_merge(query, clauses=MatchedUpdate())
        assert (result.committed, result.version, result.read_version) == (False, 0, 0)
    assert everything(table) == before


def test_a_dry_run_counts_and_writes_nothing(run_merge, table):
    write_deltalake(table, THREE)
    before = everything(table)
    result = run_merge("VALUES (2L, 'B'), (9L, 'i') AS t(id, v)", dry_run=True)
    assert (result.committed, result.metrics["numTargetRowsUpdated"], result.metrics["numTargetRowsInserted"]) == (False, 1, 1)
    assert everything(table) == before


def test_a_merge_that_only_inserts_reads_keys_and_rewrites_nothing(run_merge, reference_rows, table, monkeypatch):
    for first in (0, 100):
        write_deltalake(table, pa.table({"id": range(first, first + 5), "v": ["x"] * 5}), mode="append")
    before, scanned = active_files(table), []

    def scan(spark, snapshot, files, columns, **options):
        scanned.append((len(files), columns.names))
        return scan_positions(spark, snapshot, files, columns, **options)

    monkeypatch.setattr("airflow_delta.spark.dml.merge.join.scan_positions", scan)
    result = run_merge("SELECT id, 'new' AS v FROM range(3, 7)", clauses=NotMatchedInsert(condition="source.id <> 6"))

    assert scanned == [(1, ("id",))]
    assert before < active_files(table)
    counts = [result.metrics[f"numTarget{name}"] for name in ("FilesRemoved", "FilesAdded", "RowsCopied", "RowsInserted")]
    assert counts == [0, 1, 0, 1]
    assert [row for row in reference_rows() if row[1] == "new"] == [(5, "new")]


def test_rows_of_sixty_texts_and_of_a_struct_of_sixty_members_that_must_not_be_null_are_merged(
    run_merge, table, reference_rows
):
    texts, members = ([f"{letter}{number}" for number in range(70)] for letter in "tm")
    columns = ", ".join(f"{name} STRING NOT NULL" for name in texts)
    nested = ", ".join(f"{name}: INT NOT NULL" for name in members)
    DeltaLog.for_table(table).create(NewTable(schema=parse_struct(f"id BIGINT, {columns}, s STRUCT<{nested}>")))
    source = ", ".join(f"concat('{name} ', id) AS {name}" for name in texts)
    struct = ", ".join(f"'{name}', CAST(id AS INT)" for name in members)
    run_merge(f"SELECT id, {source}, named_struct({struct}) AS s FROM range(3)", clauses=[MatchedUpdate(), NotMatchedInsert()])
    run_merge(
        f"SELECT id, {source}, named_struct({struct}) AS s FROM range(2, 4)", clauses=[MatchedUpdate(), NotMatchedInsert()]
    )
    assert reference_rows(columns="id, t59, s.m59 AS m") == [(number, f"t59 {number}", number) for number in range(4)]


@pytest.mark.classic(reason="over Spark Connect this process writes so few rows, as one file")
@pytest.mark.parametrize(("before", "files"), [(0, 8), (2_000, 3)], ids=["an empty table", "one of many rows without any"])
def test_inserted_lists_are_written_by_as_many_tasks_as_their_bytes_need(
    spark, run_merge, reference_rows, table, monkeypatch, before, files
):
    monkeypatch.setattr(tasks, "TASK_BYTES", 64 << 10)
    many = {"spark.sql.shuffle.partitions": "20", "spark.sql.adaptive.coalescePartitions.enabled": "false"}
    nothing = {"id": pa.array(range(-before, 0), pa.int64()), "v": pa.nulls(before, pa.list_(pa.float32()))}
    write_deltalake(table, pa.table(nothing))
    there = active_files(table)
    with session_settings(spark, many):
        run_merge("SELECT id, array_repeat(1.5F, 256) AS v FROM range(512)", clauses=NotMatchedInsert())

    assert len(active_files(table) - there) == files
    assert reference_rows("1", "count(*), sum(len(v))") == [(512 + before, 512 * 256)]


def test_all_rows_of_a_file_may_go(run_merge, reference_rows, table):
    write_deltalake(table, THREE)
    result = run_merge("SELECT id FROM range(5)", clauses=MatchedDelete())
    assert reference_rows() == []
    assert active_files(table) == set()
    assert (result.metrics["numTargetRowsDeleted"], result.metrics["numTargetFilesAdded"]) == (3, 0)


def test_a_source_is_computed_once(run_merge, reference_rows, table):
    write_deltalake(table, pa.table({"id": range(200), "v": [0.0] * 200}))
    result = run_merge("SELECT id, rand() AS v FROM range(400) WHERE rand() < 0.5")
    counts = [result.metrics[f"numTargetRows{name}"] for name in ("Updated", "Inserted")]
    assert sum(counts) == result.metrics["numSourceRows"]
    assert len(reference_rows()) == 200 + counts[1]
    assert sum(row[1] != 0 for row in reference_rows()) == sum(counts)


def test_a_retry_finds_the_commit_of_its_token(run_merge, reference_rows, table):
    write_deltalake(table, THREE)
    evolve = {
        "clauses": MatchedUpdate(assignments={"v": "concat(target.v, '!')"}),
        "origin": Origin(token="t"),
        "start_version": 0,
    }
    first = run_merge("SELECT id FROM range(9)", **evolve)
    second = run_merge("SELECT id FROM range(9)", **evolve)
    assert (second.version, second.committed, second.already_committed) == (first.version, True, True)
    assert reference_rows() == [(1, "a!"), (2, "b!"), (3, "c!")]


# -- refusals


def test_every_column_that_does_not_fit_is_named_before_anything_is_written(run_merge, table):
    write_deltalake(table, pa.table({"id": [1], "v": ["a"], "n": [1.5], "d": [dt.date(2020, 1, 1)]}))
    before = everything(table)
    with pytest.raises(SchemaMismatchError) as raised:
        run_merge("SELECT 1L AS id, array(1) AS v, 'x' AS n")
    assert raised.value.differences == (
        "v: array<int> in the source, string in the table",
        "n: string in the source, double in the table",
        "d: missing in the source, date in the table",
    )
    with pytest.raises(SchemaMismatchError) as raised:
        run_merge("SELECT 1L AS id", clauses=MatchedUpdate(assignments={"nope": "1", "v": "source.id", "target.V": "'x'"}))
    assert raised.value.differences == (
        "nope: not found; the columns of the table are id, v, n, d",
        "v and target.V: both assign the same column or member; keep one",
    )
    with pytest.raises(SchemaMismatchError) as raised:
        run_merge("SELECT 1L AS id", clauses=NotMatchedInsert(assignments={"id": "target.id", "n": "source.m"}))
    assert [line.partition(" cannot")[0] for line in raised.value.differences] == ["id: target.id", "n: source.m"]
    with pytest.raises(SchemaMismatchError) as raised:
        run_merge("SELECT 1L AS id, 'b' AS v, 5 AS m, 6 AS m", clauses=MatchedUpdate(assignments={"v": "source.v"}))
    assert raised.value.differences == ("in the source two columns have the name 'm'",)
    assert everything(table) == before


def test_a_path_without_a_table_stays_as_it_is(run_merge, table):
    with pytest.raises(TableNotFoundError):
        run_merge("SELECT 1L AS id")
    assert not Path(table).exists()


def test_a_failed_expectation_leaves_nothing(run_merge, reference_rows, table):
    write_deltalake(table, pa.table({"id": [1, 2], "v": [1, 2], "other": ["p", "q"]}))
    before = everything(table)
    halve = {"clauses": MatchedUpdate(assignments={"v": "target.v - source.v"})}
    with pytest.raises(ExpectationFailedError) as raised:
        run_merge("VALUES (1L, 5L) AS t(id, v)", expect=["v >= 0"], **halve)
    assert raised.value.rows == 1
    assert everything(table) == before
    run_merge("VALUES (1L, 1L) AS t(id, v)", expect=["v >= 0 AND other = 'p'", "SELECT count(*) = 1 FROM staged"], **halve)
    assert reference_rows() == [(1, 0, "p"), (2, 2, "q")]


@pytest.mark.parametrize("clause", [MatchedUpdate(), NotMatchedInsert()])
def test_null_in_a_not_null_column_is_refused(run_merge, table, clause):
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.string(), nullable=False)])
    write_deltalake(table, pa.table({"id": [1], "v": ["a"]}, schema=schema))
    before = everything(table)
    with pytest.raises(ConstraintViolatedError) as raised:
        run_merge("SELECT id, CAST(NULL AS STRING) AS v FROM range(1, 3)", clauses=clause)
    assert raised.value.rows == 1
    assert everything(table) == before


def test_a_table_that_only_takes_appends_takes_inserts(run_merge, reference_rows, table):
    write_deltalake(table, THREE, configuration={"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyTableError):
        run_merge("SELECT 1L AS id, 'x' AS v")
    run_merge("VALUES (1L, 'x'), (4L, 'd') AS t(id, v)", clauses=NotMatchedInsert())
    assert reference_rows() == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def test_a_missing_data_file_is_named(run_merge, table):
    write_deltalake(table, THREE)
    path = next(iter(active_files(table)))
    Path(table, path).unlink()
    with pytest.raises(MissingDataFileError, match="a vacuum may have deleted it: read a newer version") as raised:
        run_merge("SELECT 1L AS id, 'x' AS v")
    assert raised.value.file.endswith(path)


# -- every type


def test_rows_keep_every_type_whether_they_change_or_not(run_merge, table, tmp_path, check_statistics):
    def rows(first, count):
        numbers = range(first, first + count)
        return pa.table(
            {
                "id": pa.array(numbers, pa.int64()),
                "byte": pa.array([i % 100 for i in numbers], pa.int8()),
                "short": pa.array([None, *numbers][:count], pa.int16()),
                "float": pa.array([float("nan") if i % 3 == 0 else i / 2 for i in numbers], pa.float32()),
                "decimal": pa.array([Decimal(i) / 100 for i in numbers], pa.decimal128(20, 2)),
                "flag": [i % 2 == 0 for i in numbers],
                "bytes": [f"b{i}".encode() for i in numbers],
                "day": [dt.date(1990, 1, 1) + dt.timedelta(i) for i in numbers],
                "at": pa.array(
                    [dt.datetime(2020, 1, 1, 0, 0, i % 60, 123456, dt.UTC) for i in numbers], pa.timestamp("us", "UTC")
                ),
                "list": [[i, None] if i % 2 else None for i in numbers],
                "struct": [{"a": i, "b": {"c": [f"{i}"]}} if i % 4 else None for i in numbers],
                "map": pa.array([[("k", i)] for i in numbers], pa.map_(pa.string(), pa.int64())),
            }
        )

    write_deltalake(table, rows(0, 20))
    changed = rows(500, 30).set_column(0, "id", pa.array(range(10, 40), pa.int64()))
    pq.write_table(changed, tmp_path / "source.parquet")

    run_merge(FileSource(str(tmp_path / "source.parquet"), format="parquet"))

    found = DeltaTable(table).to_pyarrow_table().sort_by("id")
    expected = pa.concat_tables([rows(0, 20).slice(0, 10), changed])
    assert found.drop_columns("float").cast(expected.drop_columns("float").schema).equals(expected.drop_columns("float"))
    assert str(found["float"].to_pylist()) == str(expected["float"].to_pylist())
    check_statistics()


def test_members_of_structs_are_found_by_name_at_any_depth(run_merge, reference_rows, table):
    point = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    schema = pa.schema([("id", pa.int64()), ("s", point), ("l", pa.list_(point)), ("m", pa.map_(pa.string(), point))])
    rows = [{"id": 1, "s": {"x": 1, "y": 2}, "l": None, "m": None}, {"id": 2, "s": None, "l": [], "m": None}]
    write_deltalake(table, pa.Table.from_pylist(rows, schema=schema))

    swapped = "named_struct('Y', 20, 'x', 10)"
    run_merge(
        f"SELECT id, IF(id = 2, NULL, {swapped}) AS s, array({swapped}, NULL) AS l, map('k', {swapped}) AS m FROM range(1, 4)"
    )

    found = {"x": 10, "y": 20}
    assert reference_rows(columns="id, s, l, m['k']") == [
        (1, found, [found, None], found),
        (2, None, [found, None], found),
        (3, found, [found, None], found),
    ]


def test_a_table_lies_where_its_path_says_whatever_signs_it_holds(spark, tmp_path):
    table = str(tmp_path / "ta ble ü+1")
    rows = pa.table({"id": [1, 2], "p": ["a b%/ü", "a b%/ü"], "v": [1, 2]})
    write_deltalake(table, rows, partition_by=["p"])
    source = SqlSource("VALUES (2L, 'a b%/ü', 20L), (3L, 'c:d', 30L) AS t(id, p, v)")
    statement = MergeStatement(table=table, source=source, on="target.id = source.id")
    merge(spark, DeltaLog.for_table(table), statement)
    found = DeltaTable(table).to_pyarrow_table().sort_by("id").to_pydict()
    assert found == {"id": [1, 2, 3], "p": ["a b%/ü", "a b%/ü", "c:d"], "v": [1, 20, 30]}
