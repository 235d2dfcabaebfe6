"""Whether the rows of a table satisfy a condition that is to become its constraint."""

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
    """Return if the condition is true for every row; NULL is not true. Any SQL that a table's rules may hold can be checked.

    Raises:
        ConstraintViolatedError: It is not.
        Refusal: The condition may not be the rule of a table, or means nothing on the rows that are there, such as one on a
            column that comes with it.
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
