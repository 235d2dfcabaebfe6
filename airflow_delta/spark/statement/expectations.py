"""Expectations: SQL that must hold of the staged rows before a commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.errors import ExpectationFailedError
from airflow_delta.core.statements import Expectation
from airflow_delta.spark.errors import ExpectationUnreadableError, first_line
from airflow_delta.spark.session import query
from airflow_delta.spark.statement.target_reads import TargetReads

STAGED = "staged"
"""Name of the view that holds the rows to be committed."""


def check_expectations(
    spark: SparkSession,
    expectations: Iterable[Expectation],
    staged: DataFrame,
    views: Mapping[str, DataFrame],
    *,
    table: str,
    reads: TargetReads,
) -> None:
    """Return if all of these hold; each is one Spark job over the staged files.

    Args:
        spark: The session.
        expectations: The checks, in order.
        staged: The rows to be committed, read from where they are staged.
        views: The statement's views; the checks see them by name, and ``staged`` beside them.
        table: The table's URI, for errors.
        reads: Takes note of what the checks read of the table.

    Raises:
        ExpectationFailedError: One does not hold.
        ExpectationUnreadableError: Spark cannot analyze one on these rows.
    """
    checks = tuple(expectations)
    if not checks:
        return
    seen = {**views, STAGED: staged}
    for expectation in checks:
        try:
            (_check_result if expectation.is_query else _check_rows)(spark, expectation, seen, table, reads)
        except (AnalysisException, ParseException) as error:
            raise ExpectationUnreadableError(expectation=expectation.sql, detail=first_line(error)) from error


def _check_result(
    spark: SparkSession, expectation: Expectation, views: Mapping[str, DataFrame], table: str, reads: TargetReads
) -> None:
    result = query(spark, expectation.sql, views)
    reads.look_into(result)
    rows = result.limit(2).collect()
    if len(rows) != 1 or rows[0][0] is not True:
        raise ExpectationFailedError(table=table, expectation=_name(expectation), rows=None, example=_result_text(rows))


def _check_rows(
    spark: SparkSession, expectation: Expectation, views: Mapping[str, DataFrame], table: str, reads: TargetReads
) -> None:
    # A comment at the end of the text must not swallow what follows.
    text = f"SELECT * FROM {STAGED} WHERE ({expectation.sql}\n) IS NOT TRUE"  # noqa: S608 - it is the user's own SQL
    broken = query(spark, text, views)
    reads.look_into(broken)
    example = broken.limit(1).collect()
    if example:
        raise ExpectationFailedError(table=table, expectation=_name(expectation), rows=broken.count(), example=str(example[0]))


def _name(expectation: Expectation) -> str:
    return expectation.sql if expectation.name is None else f"{expectation.name}: {expectation.sql}"


def _result_text(rows: list[object]) -> str:
    """Of a result of which two rows are read at most."""
    more = " and more rows" if len(rows) > 1 else ""
    return f"{rows[0]}{more}" if rows else "no row"
