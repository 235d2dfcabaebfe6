"""What Spark's analyser says about a MERGE before any row is read."""

from __future__ import annotations

from dataclasses import replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.errors import SchemaMismatchError
from airflow_delta.core.schema import DataType, StructType
from airflow_delta.core.schema.differences import schema_differences
from airflow_delta.spark.merge.clauses import BoundClauses, ClauseKind, of_source
from airflow_delta.spark.merge.condition import SOURCE, TARGET
from airflow_delta.spark.spark_schema import from_spark, to_spark


def analyse(source: DataFrame, schema: StructType, on: str, clauses: BoundClauses, *, table: str) -> BoundClauses:
    """The clauses with the types of their values, if every expression means something and fits its column.

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
    given: dict[tuple[int, str], DataType] = {}
    for position, clause in enumerate(clauses.clauses):
        visible = rows if clause.kind is ClauseKind.INSERT else pairs
        if clause.condition is not None:
            visible.where(F.expr(clause.condition))
        for field in schema.fields:
            text = clause.values.get(field.name)
            if text == of_source(field.name) and field.name.casefold() not in available:
                differences[f"{field.name}: missing in the source, {field.type} in the table"] = None
            elif text is not None:
                try:
                    found = from_spark(visible.select(F.expr(text).alias(field.name)).schema)
                except AnalysisException as error:
                    differences[f"{field.name}: {text} cannot be had: {str(error).splitlines()[0]}"] = None
                    continue
                differences |= dict.fromkeys(schema_differences(found, StructType((replace(field, nullable=True),))))
                if str(found.fields[0].type) != str(field.type):
                    given[position, field.name] = found.fields[0].type
    if differences:
        raise SchemaMismatchError(table=table, differences=tuple(differences))
    return replace(clauses, given=given)
