"""Checks the rows of a table against a condition that is to become its constraint."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.errors import ConstraintViolatedError
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_changes import verification
from airflow_delta.core.table_changes.refusal import Refusal
from airflow_delta.spark.constraints.column_references import column_references
from airflow_delta.spark.constraints.violations import readable, row_text
from airflow_delta.spark.errors import TableRuleRefusedError, TableRuleUnreadableError
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.schema_conversion import to_spark


def check_rows(spark: SparkSession, snapshot: Snapshot, constraint: str, sql: str) -> None:
    """Return if the condition is TRUE for every row; NULL violates it. Supports all SQL that is allowed in a table's rules.

    Raises:
        ConstraintViolatedError: A row violates it.
        Refusal: The condition is not allowed in a table, or invalid for the existing rows, for example because it references a
            column added at the same time.
    """
    nothing = spark.createDataFrame([], to_spark(snapshot.schema))
    try:
        condition = readable(nothing, f"CHECK {constraint} ({sql})", sql, table=snapshot.table_uri, is_condition=True)
    except TableRuleRefusedError as error:
        raise Refusal(f"{sql!r} holds {error.detail}", "write it with built-in functions that see one row") from error
    except TableRuleUnreadableError:
        verification.check_rows(snapshot, constraint, sql)
        return
    rows = read_table(spark, snapshot, column_references([sql], snapshot.schema).names or None)
    broken = rows.where(~F.coalesce(condition, F.lit(False)))
    count, example = broken.agg(F.count(F.lit(1)), F.first(row_text(rows.columns))).first()
    if count:
        violated = f"the constraint {constraint} ({sql})"
        raise ConstraintViolatedError(table=snapshot.table_uri, constraint=violated, rows=count, example=example)
