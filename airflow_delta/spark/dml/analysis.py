"""Spark's analysis of clauses, before any row is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.errors import SchemaMismatchError
from airflow_delta.core.schema import DataType, StructField, StructType
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.schema.differences import schema_differences
from airflow_delta.spark.constraints.column_references import TARGET
from airflow_delta.spark.constraints.column_rules import default_text
from airflow_delta.spark.constraints.values import default_value
from airflow_delta.spark.dml.clauses import BoundClauses, ClauseKind, of_source
from airflow_delta.spark.errors import first_line
from airflow_delta.spark.io.sql_expression import sql_expression
from airflow_delta.spark.jvm import analyzed
from airflow_delta.spark.schema_conversion import from_spark, to_spark
from airflow_delta.spark.statement.conform import repeated_names


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """An empty DataFrame with the target's columns, to analyze expressions."""
    return spark.createDataFrame([], to_spark(schema)).alias(TARGET)


def analyze(
    clauses: BoundClauses,
    schema: StructType,
    *,
    matched: DataFrame,
    inserted: DataFrame | None = None,
    not_matched_by_source: DataFrame | None = None,
    missing_as_null: bool = False,
    table: str,
) -> BoundClauses:
    """Analyze the clauses; returns them with the types of their values, if every expression is valid and fits its column.

    Args:
        clauses: The clauses, bound to the target.
        schema: The target's schema.
        matched: The columns visible to clauses on matched target rows.
        inserted: The columns visible to inserts: those of the source.
        not_matched_by_source: The columns visible to clauses on target rows without match: those of the target.
        missing_as_null: Whether struct fields missing in a value are allowed.
        table: URI of the target, for errors.

    Raises:
        SchemaMismatchError: Some values are invalid or do not fit their column; the error lists all of them.
        TableRuleUnreadableError: A default of the table is not valid Spark SQL.
        AnalysisException: Spark cannot analyze a condition; the message says why.
    """
    _check_defaults(matched, schema, table)
    of_the_source = {} if inserted is None else _plain_columns(from_spark(inserted.schema))
    available = {name_key(name) for name in inserted.columns} if inserted is not None else set()
    differences: dict[str, None] = {}
    given: dict[tuple[int, str], DataType] = {}
    for position, clause in enumerate(clauses.clauses):
        visible = (
            not_matched_by_source if clause.not_matched_by_source else inserted if clause.kind is ClauseKind.INSERT else matched
        ) or matched
        if clause.condition is not None:
            analyzed(visible.where(sql_expression(clause.condition)))
        missing = {name for name, text in clause.values.items() if text == of_source(name) and name_key(name) not in available}
        values = {name: text for name, text in clause.values.items() if name not in missing}
        plain = {} if clause.not_matched_by_source else of_the_source
        known = {name: replace(field, name=name) for name, text in values.items() if (field := plain.get(text))}
        others = {name: text for name, text in values.items() if name not in known}
        found: Mapping[str, StructField | str] = {**known, **_found(visible, others)} if others else known
        for field in schema.fields:
            if field.name in missing:
                differences[f"{field.name}: missing in the source, {field.type} in the table"] = None
                continue
            match found.get(field.name):
                case str() as why:
                    differences[f"{field.name}: {clause.values[field.name]} cannot be computed: {why}"] = None
                case StructField() as value:
                    differences |= dict.fromkeys(repeated_names(StructType((value,))))
                    wanted = StructType((replace(field, nullable=True),))
                    differences |= dict.fromkeys(
                        schema_differences(StructType((value,)), wanted, missing_as_null=missing_as_null)
                    )
                    if str(value.type) != str(field.type):
                        given[position, field.name] = value.type
    if differences:
        raise SchemaMismatchError(table=table, differences=tuple(differences))
    return replace(clauses, given=given)


def _plain_columns(source: StructType) -> Mapping[str, StructField]:
    """The source's columns by texts that only name one of them; these need no analysis by Spark."""
    unique = Counter(map(name_key, source.names))
    return {of_source(field.name): field for field in source.fields if unique[name_key(field.name)] == 1}


def _found(visible: DataFrame, values: Mapping[str, str]) -> dict[str, StructField | str]:
    """The type of each column's new value, or Spark's error message for it.

    All values are analyzed together, which costs as much as analyzing one; only if that fails, one by one to find which.
    """

    def with_types(names: Iterable[str]) -> dict[str, StructField]:
        names = [*names]
        frame = visible.select(*(sql_expression(values[name]).alias(name) for name in names))
        return dict(zip(names, from_spark(frame.schema).fields, strict=True))

    found: dict[str, StructField | str] = {}
    try:
        found.update(with_types(values))
    except AnalysisException:
        for name in values:
            try:
                found.update(with_types([name]))
            except AnalysisException as error:
                found[name] = first_line(error).rstrip(" ;.") + _advice(values[name], error)
    return found


def _advice(text: str, error: AnalysisException) -> str:
    """Advice for the case that a string without quotes was taken for a column."""
    is_unknown_word = text.isidentifier() and (error.getCondition() or "").startswith("UNRESOLVED_COLUMN")
    return f"; a value is SQL, in which the text {text} stands in quotes: \"'{text}'\"" if is_unknown_word else ""


def _check_defaults(visible: DataFrame, schema: StructType, table: str) -> None:
    for field in schema.fields:
        if default_text(field) is not None:
            default_value(visible, field, table=table)
