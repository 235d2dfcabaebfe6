"""``sql``: queries of scripts over tables by their paths."""

import re
from pathlib import Path

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, TableNotFoundError, VersionNotFoundError
from airflow_delta.spark import sql
from airflow_delta.spark.statement import query
from tests.spark.needs import sees_plans


@pytest.fixture
def versions(write_rows, table):
    """Version 0 holds 0 to 3, version 1 also 4 to 7."""
    write_rows("SELECT id, id % 2 AS p FROM range(4)", partition_by=("p",))
    write_rows("SELECT id, id % 2 AS p FROM range(4, 8)")


def ids(frame):
    return sorted(row[0] for row in frame.collect())


@sees_plans
def test_only_the_files_that_a_query_needs_are_read(spark, versions, table, monkeypatch):
    monkeypatch.setattr(query, "_LARGE_BYTES", 0)
    name, odd = f"delta.`{table}`", DeltaLog.for_table(table).snapshot().files("p = 1")
    assert len(sql(spark, f"SELECT id FROM {name} WHERE p = 1").inputFiles()) == len(odd)
    assert len(sql(spark, f"SELECT id FROM {name}").inputFiles()) > len(odd)


def test_tables_stand_wherever_a_table_may_and_texts_and_comments_stay_as_they_are(spark, versions, table, monkeypatch):
    monkeypatch.setattr(query, "_LARGE_BYTES", 0)
    name = f"delta.`{table}`"
    assert ids(sql(spark, f"SELECT id FROM {name} WHERE p = 1")) == [1, 3, 5, 7]
    assert ids(sql(spark, f"SELECT a.id FROM Delta . `{table}` a, {name} AS delta WHERE a.id = delta.`id` + 6")) == [6, 7]
    assert ids(sql(spark, f"WITH t AS (TABLE {name}) SELECT max(id) FROM t -- delta.`/no/table`")) == [7]
    assert ids(sql(spark, f"SELECT 'delta.`/no/table`' FROM {name} LIMIT 1")) == ["delta.`/no/table`"]
    assert ids(sql(spark, f"(SELECT id FROM range(9) WHERE id NOT IN (SELECT id FROM {name}))")) == [8]
    assert ids(sql(spark, "SELECT id FROM range(2)")) == [0, 1]
    assert ids(sql(spark, f"SELECT id FROM {name} WHERE id > :least", {"least": 5})) == [6, 7]


def test_a_version_or_time_may_stand_behind_a_table(spark, versions, table):
    name = f"delta.`{table}`"
    assert ids(sql(spark, f"SELECT id FROM {name} VERSION AS OF 0 WHERE p = 1")) == [1, 3]
    assert ids(
        sql(spark, f"SELECT n.id FROM {name} n LEFT ANTI JOIN {name} FOR SYSTEM_VERSION AS OF '0' o ON o.id = n.id")
    ) == [
        4,
        5,
        6,
        7,
    ]
    time = DeltaLog.for_table(table).snapshot(0).timestamp
    text = spark.sql(f"SELECT CAST(timestamp_millis({time}) AS STRING)").first()[0]
    assert ids(sql(spark, f"SELECT id FROM {name} TIMESTAMP AS OF '{text}'")) == [0, 1, 2, 3]
    assert ids(sql(spark, f"SELECT id FROM {name} FOR TIMESTAMP AS OF TIMESTAMP '{text}' AS o")) == [0, 1, 2, 3]
    with pytest.raises(VersionNotFoundError):
        sql(spark, f"SELECT * FROM {name} VERSION AS OF 9")
    with pytest.raises(InvalidStatementError, match="expected a time as text behind TIMESTAMP AS OF, found current_date"):
        sql(spark, f"SELECT * FROM {name} TIMESTAMP AS OF current_date()")


def test_statements_and_tables_that_are_not_there_are_refused_and_no_view_stays(spark, versions, table):
    with pytest.raises(InvalidStatementError, match=r"expected one of MERGE, .* found 'EXPLAIN SELECT"):
        sql(spark, f"EXPLAIN SELECT * FROM delta.`{table}`")
    with pytest.raises(InvalidStatementError, match="args are those of a query"):
        sql(spark, f"DELETE FROM delta.`{table}` WHERE id = :id", {"id": 1})
    with pytest.raises(TableNotFoundError):
        sql(spark, f"SELECT * FROM delta.`{table}` JOIN delta.`{table}/no`")
    sql(spark, f"SELECT * FROM delta.`{table}`")
    assert [view.viewName for view in spark.sql("SHOW VIEWS").collect() if view.viewName.startswith("delta_")] == []


def test_the_example_of_the_documentation_runs(spark, write_rows, table):
    properties = {"delta.enableChangeDataFeed": "true"}
    for number in range(8):
        query = f"SELECT {number}L AS flight, 'UA' AS carrier, DATE'2026-01-01' AS day"
        write_rows(query, properties=properties if number == 0 else {})
    text = (Path(__file__).parents[3] / "docs" / "scripts.md").read_text()
    [example] = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "delta_reader" in block]
    last = DeltaLog.for_table(table).snapshot().timestamp
    now = spark.sql(f"SELECT CAST(timestamp_millis({last}) AS STRING)").first()[0]
    names = {"spark": spark}
    exec(example.replace("/lake/flights", table).replace("2026-01-01 08:00:00", now), names)
    counts = {name: names[name].count() for name in ("carriers", "earlier", "numbers", "before", "changes")}
    assert counts == {"carriers": 1, "earlier": 4, "numbers": 8, "before": 8, "changes": 5}
