"""Statements that read their own target, raced by commits of ours and of deltalake: every end is that of a serial order.

A writer commits at a chosen point of the statement's work on the log, so no race depends on time. The statement and the writers
are also functions over lists of rows, which compute what each order of them would leave.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, groupby

import pyarrow as pa
import pytest
from deltalake import DeltaTable as ForeignTable
from deltalake import write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CommitConflictError, ExpectationFailedError
from airflow_delta.core.statements import (
    DeleteStatement,
    Expectation,
    MatchedUpdate,
    MergeStatement,
    NotMatchedBySourceDelete,
    NotMatchedInsert,
    SqlSource,
    TableSource,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.spark import DeltaTable
from airflow_delta.spark.data_source import register
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.write.write import write
from tests.spark.needs import refused_over_connect

ROWS = [(1, "mon", 10), (1, "mon", 10), (2, "mon", 20), (3, "tue", 30), (5, "tue", 5)]
SCHEMA = pa.schema({"id": pa.int64(), "day": pa.string(), "v": pa.int64()})
HANDED_OVER = "handed_over"


class RefusedError(Exception):
    """The statement's expectation does not hold of these rows."""


def ids(rows):
    return {row[0] for row in rows}


def largest(rows, column=0):
    return max(row[column] for row in rows)


def with_missing(rows, *, of=((3, "tue", 33), (4, "wed", 40))):
    return [*rows, *(row for row in of if row[0] not in ids(rows))]


def with_unknown(rows):
    if 8 in ids(rows) or 9 in ids(rows):
        raise RefusedError
    return [*rows, (9, "sun", 90)]


def with_record(rows):
    if largest(rows, 2) >= 33:
        raise RefusedError
    return [(3, day, 33) if number == 3 else (number, day, v) for number, day, v in rows]


def only_best(rows):
    days = groupby(sorted(rows, key=lambda row: row[1]), key=lambda row: row[1])
    groups = [list(group) for _, group in days]
    return [row for group in groups for row in group if row[2] == largest(group, 2)]


@dataclass(frozen=True)
class Statement:
    """A statement that reads its target: how it is run, and what it makes of rows."""

    run: Callable
    model: Callable
    is_handed_over: bool = False
    """Whether rows are bound to a version before it begins: then it may end in a conflict, if it changes nothing."""


def _write(query, **arguments):
    def run(spark, log):
        source = SqlSource(query, views={"t": TableSource(log.table_uri)})
        return write(spark, log, WriteStatement(table=log.table_uri, source=source, **arguments))

    return run


def _merge(query, on, *clauses, expect=()):
    def run(spark, log):
        source = SqlSource(query, views={"t": TableSource(log.table_uri)})
        return merge(spark, log, MergeStatement(table=log.table_uri, source=source, on=on, clauses=clauses, expect=expect))

    return run


def _append_of_rows_handed_over(spark, log):
    DeltaTable.forPath(spark, log.table_uri).toDF().createOrReplaceTempView(HANDED_OVER)
    query = f"SELECT max(id) + 1 AS id, 'new' AS day, count(*) AS v FROM {HANDED_OVER}"
    return write(spark, log, WriteStatement(table=log.table_uri, source=SqlSource(query)))


def _update_by_subquery(spark, log):
    register(spark)
    spark.read.format("delta").load(log.table_uri).createOrReplaceTempView(HANDED_OVER)
    assignments = {"v": f"(SELECT sum(v) FROM {HANDED_OVER})"}
    return update(spark, log, UpdateStatement(table=log.table_uri, assignments=assignments, where="day = 'mon'"))


MISSING = """
SELECT s.* FROM VALUES (3L, 'tue', 33L), (4L, 'wed', 40L) AS s(id, day, v)
WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.id = s.id)
"""
STATEMENTS = {
    "append_missing": Statement(_write(MISSING), with_missing),
    "append_next": Statement(
        _write("SELECT max(id) + 1 AS id, 'new' AS day, count(*) AS v FROM t"),
        lambda rows: [*rows, (largest(rows) + 1, "new", len(rows))],
    ),
    "append_of_one_day": Statement(
        _write("SELECT max(id) + 1 AS id, 'mon' AS day, count(*) AS v FROM t WHERE day = 'tue'"),
        lambda rows: [
            *rows,
            (largest([row for row in rows if row[1] == "tue"]) + 1, "mon", sum(row[1] == "tue" for row in rows)),
        ],
    ),
    "append_expect": Statement(
        _write(
            "SELECT 9L AS id, 'sun' AS day, 90L AS v",
            expect=(Expectation("SELECT count(*) = 0 FROM t WHERE id IN (8, 9)"),),
        ),
        with_unknown,
    ),
    "overwrite_distinct": Statement(
        _write("SELECT DISTINCT * FROM t", mode="overwrite"), lambda rows: list(dict.fromkeys(rows))
    ),
    "replace_where": Statement(
        _write(
            "SELECT id, day, v + 1 AS v FROM t WHERE day = 'mon'", mode="replace_where", replace_where="day = 'mon' AND v > 0"
        ),
        lambda rows: [(number, day, v + (day == "mon")) for number, day, v in rows],
    ),
    "dynamic_overwrite": Statement(
        _write("SELECT id, day, v * 2 AS v FROM t WHERE day = 'tue'", mode="dynamic_overwrite"),
        lambda rows: [(number, day, v * (1 + (day == "tue"))) for number, day, v in rows],
    ),
    "create_or_replace": Statement(
        _write("SELECT * FROM t WHERE v < 25", mode="create_or_replace", partition_by=("day",)),
        lambda rows: [row for row in rows if row[2] < 25],
    ),
    "merge_into_itself": Statement(
        _merge(
            "SELECT id, day, v + 100 AS v FROM t WHERE day = 'tue'",
            "target.id = source.id AND target.day = source.day",
            MatchedUpdate(),
            NotMatchedInsert(),
        ),
        lambda rows: [(number, day, v + 100 * (day == "tue")) for number, day, v in rows],
    ),
    "merge_of_a_total": Statement(
        _merge("SELECT max(id) + 1 AS id, 'sum' AS day, sum(v) AS v FROM t", "target.id = source.id", NotMatchedInsert()),
        lambda rows: [*rows, (largest(rows) + 1, "sum", sum(row[2] for row in rows))],
    ),
    "merge_by_source": Statement(
        _merge(
            "SELECT day, max(v) AS v FROM t GROUP BY day",
            "target.day = source.day AND target.v = source.v",
            NotMatchedBySourceDelete(),
        ),
        only_best,
    ),
    "merge_expect": Statement(
        _merge(
            "SELECT 3L AS id, 33L AS v",
            "target.id = source.id",
            MatchedUpdate(assignments={"v": "source.v"}),
            expect=(Expectation("SELECT max(v) < 33 FROM t"),),
        ),
        with_record,
    ),
    "update_by_subquery": Statement(
        _update_by_subquery,
        lambda rows: [(number, day, sum(row[2] for row in rows) if day == "mon" else v) for number, day, v in rows],
        is_handed_over=True,
    ),
    "append_of_rows_handed_over": Statement(
        _append_of_rows_handed_over, lambda rows: [*rows, (largest(rows) + 1, "new", len(rows))], is_handed_over=True
    ),
}


@dataclass(frozen=True)
class ConcurrentWriter:
    """A commit that comes in between, and what it makes of rows."""

    run: Callable
    model: Callable


CONCURRENT_WRITERS = {
    "our_append": ConcurrentWriter(
        lambda spark, table: _write("SELECT 8L AS id, 'tue' AS day, 80L AS v")(spark, DeltaLog.for_table(table)),
        lambda rows: [*rows, (8, "tue", 80)],
    ),
    "our_dependent_append": ConcurrentWriter(
        lambda spark, table: _write(MISSING)(spark, DeltaLog.for_table(table)),
        with_missing,
    ),
    "our_delete": ConcurrentWriter(
        lambda spark, table: delete(spark, DeltaLog.for_table(table), DeleteStatement(table=table, where="id = 2 OR v = 5")),
        lambda rows: [row for row in rows if row[0] != 2 and row[2] != 5],
    ),
    "our_optimize": ConcurrentWriter(
        lambda spark, table: DeltaTable.forPath(spark, table).optimize().executeCompaction(), lambda rows: rows
    ),
    "foreign_append": ConcurrentWriter(
        lambda _, table: write_deltalake(table, as_table([(9, "mon", 7)]), mode="append"),
        lambda rows: [*rows, (9, "mon", 7)],
    ),
    "foreign_delete": ConcurrentWriter(
        lambda _, table: ForeignTable(table).delete("id = 1"), lambda rows: [row for row in rows if row[0] != 1]
    ),
    "foreign_optimize": ConcurrentWriter(lambda _, table: ForeignTable(table).optimize.compact(), lambda rows: rows),
}


def as_table(rows):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def after(writers, rows):
    for writer in writers:
        rows = writer.model(rows)
    return rows


def outcomes(statement, writers):
    """How the statement ends and what rows are left, for each place of it among the concurrent writers."""
    ends = []
    for place in range(len(writers) + 1):
        rows, end = after(writers[:place], ROWS), "done"
        try:
            rows = statement.model(rows)
        except RefusedError:
            end = "refused"
        ends.append((end, sorted(after(writers[place:], rows))))
    return ends


QUICK = {
    ("append_missing", "our_dependent_append", None),
    ("overwrite_distinct", "foreign_append", None),
    ("append_expect", "our_append", None),
}
BEFORE_COMMIT = [(statement, (writer,), None) for statement in STATEMENTS for writer in CONCURRENT_WRITERS]
BEFORE_EACH_COMMIT = [
    (statement, (first, second), None)
    for statement in STATEMENTS
    for first, second in zip(CONCURRENT_WRITERS, [*list(CONCURRENT_WRITERS)[4:], *list(CONCURRENT_WRITERS)[:4]], strict=True)
]
WHILE_READING = [
    (statement, (writer,), call) for statement in STATEMENTS for writer in ("foreign_append",) for call in (2, 3, 4)
]
RACES = [
    pytest.param(
        *case,
        id="-".join([case[0], *case[1], *([f"call{case[2]}"] if case[2] else [])]),
        marks=[
            *([] if (case[0], case[1][0], case[2]) in QUICK and len(case[1]) == 1 else [pytest.mark.slow]),
            *([refused_over_connect] if case[0] == "update_by_subquery" else []),
        ],
    )
    for case in chain(BEFORE_COMMIT, BEFORE_EACH_COMMIT, WHILE_READING)
]


def test_there_are_as_many_races_as_were_requested():
    assert len(RACES) >= 200


@pytest.mark.parametrize(("statement", "writers", "call"), RACES)
def test_a_race_ends_as_a_serial_order_does(spark, table, raced, rows, statement, writers, call):
    for row in ROWS:
        write_deltalake(table, as_table([row]), partition_by=["day"], mode="append")
    statement, writers = STATEMENTS[statement], [CONCURRENT_WRITERS[writer] for writer in writers]
    log = raced(*(lambda writer=writer: writer.run(spark, table) for writer in writers), call=call)
    end, result = "done", None
    try:
        result = statement.run(spark, log)
    except ExpectationFailedError:
        end = "refused"
    except CommitConflictError:
        end = "conflict"

    came_in_between = writers[: len(writers) - len(log.store.actions)]
    assert came_in_between
    if end == "conflict":
        assert statement.is_handed_over
        assert rows() == sorted(after(came_in_between, ROWS))
    else:
        assert (end, rows()) in outcomes(statement, came_in_between)
    if result is not None and result.committed:
        assert DeltaLog.for_table(table).snapshot(result.version).commit_info.is_blind_append is False
