"""Expectations, checked before the commit."""

from pathlib import Path

import pytest

from airflow_delta.core.errors import ExpectationFailedError
from airflow_delta.core.statements import Expectation, FileSource, SqlSource, TableSource
from airflow_delta.spark.errors import ExpectationUnreadableError


@pytest.fixture
def airlines(tmp_path):
    path = tmp_path / "airlines.csv"
    path.write_text("carrier,name\nAA,American\nUA,United\n")
    return FileSource(str(path), format="csv", options={"header": "true"}, schema="carrier STRING, name STRING")


def flights(airlines, *carriers):
    rows = ", ".join(f"('{carrier}', {number})" for number, carrier in enumerate(carriers))
    return SqlSource(f"SELECT * FROM VALUES {rows} AS t(carrier, n)", views={"airlines": airlines})


@pytest.mark.parametrize(
    "expectation",
    [
        "n >= 0",
        "carrier IN (SELECT carrier FROM airlines)",
        "n < 10 -- a remark",
        "SELECT count(*) = 2 FROM staged",
        "WITH c AS (SELECT DISTINCT carrier FROM staged) SELECT count(*) = 2 FROM c JOIN airlines USING (carrier)",
    ],
)
def test_what_holds_lets_the_commit_pass(write_rows, airlines, reference_rows, expectation):
    write_rows(flights(airlines, "AA", "UA"), expect=(expectation,))

    assert reference_rows(order="n") == [("AA", 0), ("UA", 1)]


@pytest.mark.parametrize(
    ("expectation", "rows", "example"),
    [
        ("n < 1", 2, "Row(carrier="),
        ("carrier IN (SELECT carrier FROM airlines)", 1, "Row(carrier='XX', n=2)"),
        ("nullif(n, 0) > 0", 1, "Row(carrier='AA', n=0)"),
        ("SELECT count(*) = 2 FROM staged", None, "Row("),
        ("SELECT CAST(NULL AS BOOLEAN)", None, "Row("),
        ("SELECT n > 0 FROM staged ORDER BY n DESC", None, "Row((n > 0)=True) and more rows"),
        ("SELECT true WHERE false", None, "no row"),
    ],
)
def test_what_does_not_hold_is_reported_with_an_example_and_nothing_is_committed(
    write_rows, airlines, table, expectation, rows, example
):
    with pytest.raises(ExpectationFailedError) as caught:
        write_rows(flights(airlines, "AA", "UA", "XX"), expect=("n >= 0", Expectation(expectation, name="count")))

    assert caught.value.expectation == f"count: {expectation}"
    assert caught.value.rows == rows
    assert caught.value.example.startswith(example)
    assert not Path(table).exists()


def test_partition_values_are_seen_as_they_will_be_read(write_rows):
    write_rows(
        "SELECT id, DATE'2013-01-01' AS day, IF(id = 0, '', 'x') AS p FROM range(2)",
        partition_by=("day", "p"),
        expect=(
            "day = DATE'2013-01-01'",
            "p IS NULL OR id = 1",
            "SELECT count(p) = 1 FROM staged",
        ),
    )


def test_sql_that_does_not_fit_the_rows_is_named(write_rows, table):
    with pytest.raises(ExpectationUnreadableError) as caught:
        write_rows("SELECT 1 AS id", expect=("no_such_column > 0",))

    assert caught.value.expectation == "no_such_column > 0"
    assert not Path(table).exists()


def test_views_of_the_session_are_what_they_were(spark, write_rows, table):
    spark.sql("SELECT 'mine' AS owner").createOrReplaceTempView("staged")
    spark.sql("SELECT 'mine too' AS owner").createOrReplaceTempView("flights")
    write_rows("SELECT 1 AS id")
    source = SqlSource("SELECT * FROM flights", views={"flights": TableSource(table), "other view": TableSource(table)})
    write_rows(source, expect=("id IN (SELECT id FROM `other view`)",))

    assert spark.table("staged").collect() == [("mine",)]
    assert spark.table("flights").collect() == [("mine too",)]
    assert not spark.catalog.tableExists("`other view`")
