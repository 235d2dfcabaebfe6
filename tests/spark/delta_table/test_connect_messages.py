"""Columns of Spark Connect as SQL, without a server: the messages are made by the client."""

import datetime as dt
from decimal import Decimal
from types import SimpleNamespace

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812
from pyspark.sql.connect import plan
from pyspark.sql.connect.column import Column
from pyspark.sql.connect.expressions import ColumnReference
from pyspark.sql.types import DecimalType

from airflow_delta.spark.delta_table.connect_messages import column_text, frame_numbers, qualifiers

SESSION = SimpleNamespace(client=None)


def rows(of):
    return SimpleNamespace(_plan=of, sparkSession=SESSION)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (F.col("t.id") == F.col("u.id"), "(t.id = u.id)"),
        (F.col("id") != 5, "(NOT (id = 5))"),
        ((F.col("a") > 1) & ~(F.col("b") <= 2.5) | F.col("c").isNull(), "(((a > 1) AND (NOT (b <= 2.5D))) OR isNull(c))"),
        (F.col("a").eqNullSafe(None), "(a <=> NULL)"),
        (-F.col("a") % 3, "((- a) % 3)"),
        (F.col("name").isin("it's", "a\\b"), "(name IN ('it\\'s', 'a\\\\b'))"),
        (F.col("name").like("a%"), "(name LIKE 'a%')"),
        (F.concat("a", F.lit("x")), "concat(a, 'x')"),
        (F.when(F.col("a"), 1).when(F.col("b"), 2).otherwise(3), "CASE WHEN a THEN 1 WHEN b THEN 2 ELSE 3 END"),
        (F.when(F.col("a"), 1), "CASE WHEN a THEN 1 END"),
        (F.col("a").cast("bigint"), "CAST(a AS bigint)"),
        (F.col("a").cast(DecimalType(10, 2)), "CAST(a AS decimal(10,2))"),
        (F.col("a").try_cast("int"), "TRY_CAST(a AS int)"),
        (F.expr("a + 1 -- one"), "(a + 1 -- one\n)"),
        (F.col("a")["b`c"], "a.`b``c`"),
        (F.col("a")[0], "a[0]"),
        (F.lit(dt.date(2020, 2, 29)), "DATE '2020-02-29'"),
        (F.lit(dt.datetime(2020, 2, 29, 1, tzinfo=dt.UTC)), "TIMESTAMP_LTZ '2020-02-29 01:00:00+00:00'"),
        (F.lit(b"\x01\xff"), "X'01ff'"),
        (F.lit(Decimal("1.50")), "1.50BD"),
        (F.lit(1 << 40), "1099511627776L"),
        (F.lit(True), "TRUE"),
        (F.struct("a", F.lit(1).alias("b c")), "struct(a, 1 AS `b c`)"),
        (F.call_function("my fn", F.col("a")), "`my fn`(a)"),
    ],
)
def test_a_column_is_written_as_the_sql_that_means_the_same(column, text):
    assert column_text(column, rows(None), {}) == text


@pytest.mark.parametrize(
    "column", [F.transform("a", lambda x: x + 1), F.udf(lambda x: x)("a"), F.countDistinct("a"), F.lit(float("inf"))]
)
def test_what_has_no_text_is_not_guessed(column):
    assert column_text(F.lit(0) == column, rows(None), {}) is None


def test_a_column_taken_from_a_frame_stands_on_its_side():
    shown = plan.Range(0, 3, 1)
    taken = Column(ColumnReference("id", shown._plan_id))
    above = plan.SubqueryAlias(plan.Filter(shown, taken), "t")
    assert shown._plan_id in frame_numbers(rows(above))
    assert column_text(taken == 1, rows(above), {shown._plan_id: "target"}) == "(target.id = 1)"
    assert column_text(taken == 1, rows(above), {}) == "(id = 1)"


def test_qualifiers_are_the_outermost_aliases_and_the_names_of_tables():
    hidden = plan.SubqueryAlias(plan.Range(0, 3, 1), "inside")
    left = plan.SubqueryAlias(hidden, "Left")
    right = plan.Filter(plan.Read("`cat`.db.T"), Column(ColumnReference("id")))
    joined = plan.Join(left, right, on="id", how="inner")
    assert sorted(qualifiers(rows(joined))) == [("cat", "db", "t"), ("left",)]
