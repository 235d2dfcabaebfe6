"""What Spark's analyser says about a MERGE before any row is read."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.errors import SchemaMismatchError
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.differences import schema_differences
from airflow_delta.spark.merge.clauses import BoundClauses, ClauseKind, of_source
from airflow_delta.spark.merge.condition import SOURCE, TARGET
from airflow_delta.spark.spark_schema import from_spark, to_spark


def check_statement(source: DataFrame, schema: StructType, on: str, clauses: BoundClauses, *, table: str) -> None:
    """Return if every expression means something and fits its column.

    Args:
        source: The rows of the source, not computed.
        schema: The target's.
        on: The statement's condition.
        clauses: Bound to the target.
        table: URI of the target, for the error.

    Raises:
        SchemaMismatchError: With every value that cannot be had or does not fit its column.
        AnalysisException: A condition means nothing to Spark; its text tells.
    """
    rows = source.alias(SOURCE)
    no_rows = source.sparkSession.createDataFrame([], to_spark(schema))
    pairs = rows.join(no_rows.alias(TARGET), F.expr(on), "left")
    available = {name.casefold() for name in source.columns}
    differences: dict[str, None] = {}
    for clause in clauses.clauses:
        visible = rows if clause.kind is ClauseKind.INSERT else pairs
        if clause.condition is not None:
            visible.where(F.expr(clause.condition))
        for field in schema.fields:
            if field.name in clause.values:
                found = _difference(visible, field, clause.values[field.name], available)
                differences |= dict.fromkeys(found)
    if differences:
        raise SchemaMismatchError(table=table, differences=tuple(differences))


def _difference(visible: DataFrame, field: StructField, text: str, available: set[str]) -> tuple[str, ...]:
    """What keeps this expression from being the column's value."""
    if text == of_source(field.name) and field.name.casefold() not in available:
        return (f"{field.name}: missing in the source, {field.type} in the table",)
    try:
        given = from_spark(visible.select(F.expr(text).alias(field.name)).schema)
    except AnalysisException as error:
        return (f"{field.name}: {text} cannot be had: {str(error).splitlines()[0]}",)
    return schema_differences(given, StructType((StructField(field.name, field.type),)))
