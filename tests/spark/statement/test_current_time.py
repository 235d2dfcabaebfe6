"""Functions of time in the texts of a statement, as literals."""

import pyspark
import pytest

from airflow_delta.spark.io.sql_expression import sql_expression
from airflow_delta.spark.statement.current_time import StatementTime
from tests.spark.session_settings import session_settings


@pytest.fixture
def time(spark):
    return StatementTime(spark, lambda: ["id", "Current_Date"])


@pytest.mark.parametrize(
    "settings", [{}, {"spark.sql.timestampType": "TIMESTAMP_NTZ"}, {"spark.sql.session.timeZone": "Asia/Tokyo"}]
)
def test_a_literal_has_the_type_of_the_function_and_the_value_of_the_moment(spark, settings):
    calls = ["current_date()", "CURDATE( )", "now()", "current_timestamp", "localtimestamp()", "unix_timestamp()"]
    with session_settings(spark, settings):
        time = StatementTime(spark, tuple)
        fixed = [time.fixed(text) for text in calls]
        types = [[f"typeof({text})" for text in texts] for texts in (calls, fixed)]
        [(before, after)] = spark.range(1).select(*(sql_expression(f"array({', '.join(texts)})") for texts in types)).collect()
        apart = ", ".join(f"CAST({text} AS TIMESTAMP) BETWEEN now() - INTERVAL 1 HOUR AND now()" for text in fixed[2:5])
        [row] = (
            spark.range(1).select(sql_expression(f"array({fixed[0]} = {fixed[1]}, {fixed[2]} = {fixed[3]}, {apart})")).collect()
        )

    assert before == after
    assert row[0] == [True] * 5
    assert not [text for text in fixed if "(" in text or "current" in text.lower()]


@pytest.mark.parametrize(
    "text",
    [
        "id = 'now()'",
        "`now` > 3",
        "current_date > 3",
        "source.now > 3",
        "current_date.x > 3",
        "unix_timestamp(id) > 3",
        "id IN (SELECT current_timestamp FROM t)",
        "now > 'x",
    ],
)
def test_texts_columns_and_functions_of_a_value_stay(time, text):
    assert time.fixed(text) == text


@pytest.mark.skipif(
    pyspark.__version__.startswith(("4.0.", "4.1.")), reason="before Spark 4.2 it replaces Spark's own for good"
)
def test_a_function_of_the_session_keeps_its_meaning_where_spark_prefers_it(spark, time):
    spark.sql("CREATE TEMPORARY FUNCTION now() RETURNS STRING RETURN 'mine'")
    try:
        [(said, fixed)] = spark.sql(f"SELECT typeof(now()), typeof({time.fixed('now()')})").collect()
    finally:
        spark.sql("DROP TEMPORARY FUNCTION now")

    assert said == fixed


def test_one_statement_means_one_time(time):
    first = time.fixed("now()")
    assert time.fixed("id > 1 AND now() < now ( )") == f"id > 1 AND {first} < {first}"
