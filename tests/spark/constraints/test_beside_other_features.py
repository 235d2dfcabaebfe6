"""Constraints on tables with mapped columns, a change feed, deletion vectors; and files that are rewritten without new rows."""

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ConstraintViolatedError
from airflow_delta.core.statements import UPSERT, MatchedUpdate, NotMatchedInsert, OptimizeStatement
from airflow_delta.spark.optimize.optimize import optimize
from tests.slow_cases import slow_after

FEATURES = {
    "delta.columnMapping.mode": "name",
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
}


@pytest.mark.slow
def test_all_constraints_are_enforced_beside_all_features(create, write_rows, change, put_together, seen, column, table):
    create(
        """k BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT, `odd name` INT DEFAULT 5,
           twice INT GENERATED ALWAYS AS (`odd name` * 2)""",
        constraints={"c": "`odd name` < 100"},
        properties=FEATURES,
    )
    write_rows("SELECT id FROM range(3)")
    change("id = 1", assignments={"`odd name`": "50"})
    put_together("SELECT id, 7 AS `odd name` FROM range(2, 4)", clauses=UPSERT)
    with pytest.raises(ConstraintViolatedError) as caught:
        change("id >= 1", assignments={"odd name": "`odd name` * 2"})

    assert (caught.value.constraint, caught.value.rows) == ("CHECK c (`odd name` < 100)", 1)
    assert seen('k, id, "odd name", twice') == [(1, 0, 5, 10), (2, 1, 50, 100), (3, 2, 7, 14), (4, 3, 7, 14)]
    assert column("k")["delta.identity.highWaterMark"] == 4
    inserted = [
        {name: row[name] for name in ("k", "id", "odd name", "twice")}
        for batch in DeltaLog.for_table(table).changes(3, 3)
        for row in batch.to_pylist()
        if row["_change_type"] == "insert"
    ]
    assert inserted == [{"k": 4, "id": 3, "odd name": 7, "twice": 14}]


@pytest.mark.parametrize("numbers", ["ALWAYS", "BY DEFAULT"])
@pytest.mark.parametrize(
    "clauses",
    slow_after(1, [UPSERT, [MatchedUpdate(), NotMatchedInsert(assignments={"id": "source.id"})]]),
    ids=["*", "listed"],
)
def test_a_column_generated_from_an_identity_column_follows_its_numbers(
    create, write_rows, change, put_together, seen, column, numbers, clauses
):
    create(
        f"k BIGINT GENERATED {numbers} AS IDENTITY, id BIGINT, twice BIGINT GENERATED ALWAYS AS (coalesce(k, -1) * 2)",
        partition_by=("twice",),
    )
    write_rows("SELECT id FROM range(3)")
    put_together("SELECT id FROM range(2, 5)", clauses=clauses)
    change("id = 0", assignments={"id": "9"})

    assert [(id_, twice == 2 * k) for id_, k, twice in seen("id, k, twice")] == [(one, True) for one in (1, 2, 3, 4, 9)]
    assert column("k")["delta.identity.highWaterMark"] == 5


def test_rows_that_only_move_are_not_asked_again(create, write_rows, spark, table, seen):
    create("id BIGINT, at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE))")
    write_rows("SELECT 1L AS id, TIMESTAMP'2013-01-01 23:30:00Z' AS at")
    write_rows("SELECT 2L AS id, TIMESTAMP'2013-01-02 23:30:00Z' AS at")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        result = optimize(spark, DeltaLog.for_table(table), OptimizeStatement(table=table))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)

    assert (result.metrics["numRemovedFiles"], result.metrics["numAddedFiles"]) == (2, 1)
    assert seen("id, CAST(day AS VARCHAR)") == [(1, "2013-01-01"), (2, "2013-01-02")]
