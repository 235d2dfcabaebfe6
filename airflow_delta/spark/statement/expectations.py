"""Expectations: SQL that must hold for the staged rows before a commit."""

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
"""Name of the view with the rows to be committed."""


def check_expectations(
    spark: SparkSession,
    expectations: Iterable[Expectation],
    staged: DataFrame,
    views: Mapping[str, DataFrame],
    *,
    table: str,
    reads: TargetReads,
) -> None:
    """Return if all of these hold; each one runs a Spark job over the staged files.

    Args:
        spark: The session.
        expectations: The checks, in order.
        staged: The rows to be committed, read from their staged files.
        views: The statement's views; the checks can use them by name, in addition to ``staged``.
        table: The table's URI, for errors.
        reads: Records what the checks read of the table.

    Raises:
        ExpectationFailedError: An expectation does not hold.
        ExpectationUnreadableError: Spark cannot analyze an expectation on these rows.
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
    # The line break ends a comment at the end of the text.
    text = f"SELECT * FROM {STAGED} WHERE ({expectation.sql}\n) IS NOT TRUE"  # noqa: S608 - it is the user's own SQL
    broken = query(spark, text, views)
    reads.look_into(broken)
    example = broken.limit(1).collect()
    if example:
        raise ExpectationFailedError(table=table, expectation=_name(expectation), rows=broken.count(), example=str(example[0]))


def _name(expectation: Expectation) -> str:
    return expectation.sql if expectation.name is None else f"{expectation.name}: {expectation.sql}"


def _result_text(rows: list[object]) -> str:
    """The text of a query's result, of which at most two rows are read."""
    more = " and more rows" if len(rows) > 1 else ""
    return f"{rows[0]}{more}" if rows else "no row"
