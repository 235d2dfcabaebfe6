"""What rows get in the columns that they do not name, when they are appended or written over others."""

import datetime as dt
import re
from decimal import Decimal

import pytest
from pyspark.errors import PySparkException

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ConstraintViolatedError, SchemaMismatchError
from airflow_delta.core.statements import NotMatchedInsert, SqlSource, WriteMode
from airflow_delta.spark import DeltaTable, delta_writer
from airflow_delta.spark.errors import TableRuleUnreadableError
from tests.spark.session_settings import session_settings


def test_defaults_of_delta_spark_s_table_stand_for_what_rows_do_not_name(by_delta_spark, write_rows, reference_rows):
    by_delta_spark("default_columns")
    write_rows("SELECT 7 AS ID")
    write_rows("SELECT 8 AS id, 's' AS s, CAST(NULL AS INT) AS n")

    assert reference_rows()[-2:] == [(7, None, 99, dt.date(2024, 1, 1)), (8, "s", None, dt.date(2024, 1, 1))]


def test_a_default_is_about_no_column_and_is_cast_to_its_own(create, write_rows, reference_rows):
    create("id BIGINT, n DECIMAL(10, 2) NOT NULL DEFAULT 7 + 1, at TIMESTAMP DEFAULT current_timestamp()")
    write_rows("SELECT 1L AS id")

    ((row_id, number, at),) = reference_rows()
    assert (row_id, str(number)) == (1, "8.00")
    assert abs(at - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=10)


def test_generated_columns_of_delta_spark_s_table_are_computed_also_the_partition(by_delta_spark, write_rows, reference_rows):
    by_delta_spark("generated_columns")
    write_rows("SELECT 7L AS id, TIMESTAMP'2025-07-01 23:00:00' AS ts UNION ALL SELECT 8, NULL")

    columns = "id, d, y, dbl"
    assert reference_rows(columns=columns)[-2:] == [(7, dt.date(2025, 7, 1), 2025, 14), (8, None, None, 16)]


def test_a_given_value_of_a_generated_column_must_be_the_generated_one(create, write_rows, reference_rows):
    create("id BIGINT, twice BIGINT GENERATED ALWAYS AS (id * 2)")
    write_rows("SELECT 2L AS id, 4L AS twice UNION ALL SELECT NULL, NULL")
    with pytest.raises(ConstraintViolatedError) as caught:
        write_rows("SELECT id, IF(id > 2, NULL, id * 2) AS twice FROM range(5)")

    assert (caught.value.rows, caught.value.constraint) == (2, "twice GENERATED ALWAYS AS (id * 2)")
    assert reference_rows() == [(None, None), (2, 4)]


def test_a_generated_value_is_compared_in_the_type_of_its_column(create, write_rows, reference_rows):
    day = "day DATE GENERATED ALWAYS AS (CAST('2024-01-31 23:00:00' AS TIMESTAMP_NTZ))"
    create(f"id INT, half INT GENERATED ALWAYS AS (id / 2), price DECIMAL(5, 2) GENERATED ALWAYS AS (id * 1.006D), {day}")
    row = (3, 1, Decimal("3.02"), dt.date(2024, 1, 31))
    write_rows("SELECT 3 AS id")
    write_rows("SELECT 3 AS id, 1 AS half")
    with pytest.raises(ConstraintViolatedError, match="half GENERATED ALWAYS AS"):
        write_rows("SELECT 3 AS id, 2 AS half")

    assert reference_rows() == [row, row]


def test_a_generated_column_may_be_about_a_default(create, write_rows, reference_rows):
    create("id BIGINT, n INT DEFAULT 5, label STRING GENERATED ALWAYS AS (concat(id, '-', n))")
    write_rows("SELECT 1L AS id")

    assert reference_rows() == [(1, 5, "1-5")]


def test_identity_columns_of_delta_spark_s_table_go_on_behind_their_marks(
    by_delta_spark, write_rows, reference_rows, table, column
):
    by_delta_spark("identity_columns")
    write_rows("SELECT concat('x', id) AS s FROM range(3)")
    write_rows("SELECT 7L AS j, 'y' AS s")

    assert sorted(reference_rows(order="k")[-4:]) == [(6, 140, "x0"), (7, 150, "x1"), (8, 160, "x2"), (9, 7, "y")]
    assert (column("k")["delta.identity.highWaterMark"], column("j")["delta.identity.highWaterMark"]) == (9, 160)
    assert DeltaLog.for_table(table).snapshot().commit_info.tags == {"delta.identity.schemaUpdate": "true"}


def test_numbers_from_many_tasks_are_without_gap_and_go_down_where_the_step_does(create, write_rows, reference_rows, column):
    create("k BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY -5), id BIGINT")
    write_rows("SELECT /*+ REPARTITION(7) */ id FROM range(100) WHERE id % 9 <> 0")
    write_rows("SELECT id + 100 AS id FROM range(2)", mode=WriteMode.OVERWRITE)

    assert reference_rows(order="k", columns="k") == [(10 - 5 * 89,), (10 - 5 * 88,)]
    assert column("k")["delta.identity.highWaterMark"] == 10 - 5 * 89


def test_no_rows_move_no_mark(create, write_rows, column):
    create("k BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT")
    write_rows("SELECT id FROM range(0)")

    assert "delta.identity.highWaterMark" not in column("k")


def test_values_for_a_column_that_the_table_always_numbers_are_refused(create, write_rows):
    create("k BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT")
    with pytest.raises(SchemaMismatchError, match="k: the table numbers it"):
        write_rows("SELECT 1L AS K, 1L AS id")


def test_numbers_that_run_out_are_an_error_before_anything_is_written(create, write_rows, table):
    create(f"k BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH {2**63 - 3}), id BIGINT")
    write_rows("SELECT id FROM range(2)")
    with pytest.raises(ConstraintViolatedError, match="identity column k"):
        write_rows("SELECT id FROM range(2)")

    assert DeltaLog.for_table(table).snapshot().version == 1


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        ("id BIGINT, n BIGINT DEFAULT id", "n DEFAULT id"),
        ("id BIGINT, n BIGINT DEFAULT no_such_function(1)", "n DEFAULT no_such_function(1)"),
        ("id BIGINT, n BIGINT GENERATED ALWAYS AS (no_such_function(id))", "n GENERATED ALWAYS AS (no_such_function(id))"),
    ],
)
def test_a_rule_that_means_nothing_to_spark_is_named(create, write_rows, columns, rule):
    create(columns)
    with pytest.raises(TableRuleUnreadableError) as caught:
        write_rows(SqlSource("SELECT 1L AS id"))

    assert caught.value.rule == rule


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("n TINYINT DEFAULT 300", "300 does not fit the type tinyint: it would be 44"),
        ("n INT DEFAULT 'abc'", "abc does not fit the type int: it would be NULL"),
        ("n DECIMAL(3, 1) DEFAULT 12345.6", "12345.6 does not fit the type decimal(3,1): it would be NULL"),
        ("n STRUCT<a: TINYINT> DEFAULT named_struct('b', 300)", "300 does not fit the type tinyint: it would be 44"),
        ("n INT GENERATED ALWAYS AS (id * 2)", "6000000000 does not fit the type int: it would be 1705032704"),
        (
            "n DATE GENERATED ALWAYS AS (concat('2024-13-', id))",
            "2024-13-3000000000 does not fit the type date: it would be NULL",
        ),
    ],
)
def test_an_own_value_that_its_column_cannot_hold_fails_in_a_session_without_ansi_too(
    spark, create, write_rows, put_together, reference_rows, column, text
):
    create(f"id BIGINT, {column}")
    insert = [NotMatchedInsert(assignments={"id": "source.id"})]
    with session_settings(spark, {"spark.sql.ansi.enabled": "false"}):
        with pytest.raises(PySparkException, match=re.escape(text)):
            write_rows("SELECT 3000000000L AS id")
        if "GENERATED" in column:
            with pytest.raises(PySparkException, match=re.escape(text)):
                put_together("SELECT 3000000000L AS id", clauses=insert)

    assert reference_rows() == []


def test_own_values_that_fit_are_cast_in_a_session_without_ansi_too(spark, create, write_rows, reference_rows):
    columns = (
        "n TINYINT DEFAULT 3 + 4, s STRUCT<a: TINYINT, b: STRING> DEFAULT named_struct('x', 5, 'y', 6), none INT DEFAULT NULL"
    )
    create(f"id BIGINT, {columns}, text STRING DEFAULT INTERVAL 1 DAY, half INT GENERATED ALWAYS AS (id / 2)")
    with session_settings(spark, {"spark.sql.ansi.enabled": "false"}):
        write_rows("SELECT 3L AS id")

    assert reference_rows() == [(3, 7, {"a": 5, "b": "6"}, None, "INTERVAL '1' DAY", 1)]


@pytest.mark.classic(reason="sessions of Spark Connect are given by name")
def test_rules_are_read_in_the_session_of_the_rows_not_in_the_active_one(spark, table, create, reference_rows):
    create("id BIGINT", constraints={"positive": "ID > 0"})
    other = spark.newSession()
    with session_settings(spark, {"spark.sql.caseSensitive": "true"}):
        rows = other.sql("SELECT 1L AS id")
        spark.createDataFrame([], "a INT")  # which makes a session the active one
        delta_writer(rows).mode("append").save(table)
        spark.createDataFrame([], "a INT")
        DeltaTable.forPath(other, table).update("id = 1", {"id": "2L"})
    assert reference_rows() == [(2,)]
