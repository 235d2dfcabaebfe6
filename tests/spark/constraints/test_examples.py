"""An error about rows that violate a constraint shows one of them."""

import json
from functools import partial

import pytest

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ConstraintViolatedError
from airflow_delta.core.statements import AddConstraint, AlterStatement, MatchedUpdate, NotMatchedInsert
from airflow_delta.jobs.core_statements import execute_in_core
from airflow_delta.jobs.runner import Backend
from airflow_delta.spark.constraints.verification import check_rows


def example(brings):
    with pytest.raises(ConstraintViolatedError) as caught:
        brings()
    assert str(caught.value).startswith(f"[DELTA_CONSTRAINT_VIOLATED] {caught.value.claim()}.")
    assert caught.value.claim().endswith(f"violate {caught.value.constraint}, such as {caught.value.example}")
    return caught.value.constraint, json.loads(caught.value.example)


def test_the_error_of_a_write_shows_a_row_that_violates_the_constraint(create, write_rows):
    create(
        "id BIGINT, v INT NOT NULL, day DATE",
        partition_by=["day"],
        constraints={"small": "v < 5", "early": "day < '2024-01-01'"},
    )
    late, large = "(1L, 1, DATE'2025-01-01')", "(3L, 7, DATE'2026-01-01')"
    for rows, constraint, shown in (
        (f"{large}, (2L, NULL, DATE'2020-02-02')", "NOT NULL of v", {"id": 2, "day": "2020-02-02"}),
        (f"{late}, {large}", "CHECK small (v < 5)", {"id": 3, "v": 7, "day": "2026-01-01"}),
        (f"(0L, 1, DATE'2020-01-01'), {late}", "CHECK early (day < '2024-01-01')", {"id": 1, "v": 1, "day": "2025-01-01"}),
    ):
        assert example(lambda rows=rows: write_rows(f"SELECT * FROM VALUES {rows} AS t(id, v, day)")) == (constraint, shown)


def test_an_update_and_both_halves_of_a_merge_show_what_the_row_would_become(create, write_rows, change, put_together):
    create("id BIGINT, v INT", constraints={"small": "v < 5"})
    write_rows("SELECT id, CAST(id AS INT) AS v FROM range(4)")
    assert example(lambda: change("id = 3", assignments={"v": "v + 10"}))[1] == {"v": 13}
    for number, value, shown in ((1, 8, {"v": 8}), (9, 7, {"id": 9, "v": 7})):
        source = f"SELECT {number}L AS id, {value} AS v UNION ALL SELECT 2L, 1"
        clauses = [MatchedUpdate(assignments={"v": "source.v"}), NotMatchedInsert()]
        assert example(lambda source=source, clauses=clauses: put_together(source, clauses=clauses))[1] == shown


def test_a_replaced_range_shows_a_row_outside_of_it(write_rows):
    write_rows("SELECT id, id AS v FROM range(4)")
    new = "SELECT id, id AS v FROM range(2, 5)"
    assert example(lambda: write_rows(new, mode="replace_where", replace_where="v < 4")) == (
        "replace_where v < 4",
        {"id": 4, "v": 4},
    )


def test_a_new_constraint_shows_a_row_that_is_there(spark, create, write_rows, table):
    create("id BIGINT, v BIGINT")
    write_rows("SELECT id, id * 2 AS v FROM range(5)")
    added = AlterStatement(table=table, changes=(AddConstraint("c", "v < 8"),))
    alter = partial(
        execute_in_core,
        DeltaLog.for_table(table),
        added,
        origin=Origin(),
        backend=Backend(rows_check=partial(check_rows, spark)),
    )
    assert example(alter) == ("the constraint c (v < 8)", {"v": 8})


def test_values_of_every_type_are_shown_and_long_ones_cut(create, write_rows):
    create("id INT NOT NULL, b BINARY, d DECIMAL(9, 2), t TIMESTAMP, f DOUBLE, m MAP<INT, STRING>, s STRUCT<`a-b`: ARRAY<INT>>")
    row = "X'00FF' AS b, 1.5BD AS d, TIMESTAMP'2024-01-02 03:04:05Z' AS t, double('NaN') AS f, map(1, 'x') AS m"
    query = f"SELECT CAST(NULL AS INT) AS id, {row}, named_struct('a-b', array(1, NULL)) AS s"
    shown = example(lambda: write_rows(query))[1]
    assert (shown["b"], shown["d"], shown["f"], shown["m"], shown["s"]) == ("AP8=", 1.5, "NaN", {"1": "x"}, {"a-b": [1, None]})
    with pytest.raises(ConstraintViolatedError) as caught:
        write_rows("SELECT CAST(NULL AS INT) AS id, CAST(repeat('x', 5000) AS BINARY) AS b")
    assert len(caught.value.example) == 400
