"""Finds out what a query needs of the tables behind its views, with Spark's own optimizer.

The query is optimized over stand-ins of its views: relations of which Spark knows only the columns. The columns that the
optimized plan still takes from a stand-in, and the conditions that were pushed down to it through joins, aggregates, windows
and CTEs, also apply to the table's rows. Nothing is executed. Later Spark evaluates the whole query, on rows with all columns:
the result here only shows which files and columns need not be read.

Requires a classic session, as Spark Connect provides no plans. For a query with ``current_date()``, ``'today'`` or the like no
condition is used, as its value may differ when the query runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.predicate import TRUE, disjunction
from airflow_delta.core.schema import without_column_mapping
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.spark.io.all_nullable import all_nullable
from airflow_delta.spark.io.pushdown import EVERYTHING, Pushdown
from airflow_delta.spark.jvm import Py4JError, active_jvm, session_state
from airflow_delta.spark.schema_conversion import to_spark
from airflow_delta.spark.session import query_views
from airflow_delta.spark.statement.plan_conditions import conjuncts, members, predicate_in

_VIEW = "airflow_delta.view"
"""Metadata key of a stand-in's columns with the name of the view."""

_RELATIVE_DAY = re.compile(r"""['"]\s*(now|today|tomorrow|yesterday)\b""", re.IGNORECASE)
_CHOOSE_COLUMNS = ("Project", "Aggregate")


def push_down(
    spark: SparkSession, query: str, tables: Mapping[str, Snapshot], others: Mapping[str, DataFrame]
) -> Mapping[str, Pushdown]:
    """What the query needs of each of these tables; tables that are needed in whole, or not at all, are left out.

    Args:
        spark: The session.
        query: Spark SQL, which is not validated here.
        tables: The tables, by names of their views.
        others: The query's other views.
    """
    try:
        stand_ins = {name: _stand_in(spark, name, snapshot) for name, snapshot in tables.items()}
        with query_views(spark, {**others, **stand_ins}):
            execution = _unexecuted(spark, query)
            execution.assertAnalyzed()
        plan = execution.optimizedPlan()
        current = active_jvm().org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
        is_timed = _RELATIVE_DAY.search(query) is not None or execution.analyzed().containsPattern(current)
        found: dict[str, list[Pushdown]] = {name: [] for name in tables}
        for root in (plan, *members(plan.subqueriesAll())):
            for name, pushdown in _reads(spark, root, (), tables):
                found[name].append(replace(pushdown, predicate=TRUE) if is_timed else pushdown)
    except (PySparkException, Py4JError):
        return {}
    merged = {name: _merged(pushdowns) for name, pushdowns in found.items() if pushdowns}
    return {name: pushdown for name, pushdown in merged.items() if pushdown != EVERYTHING}


def _stand_in(spark: SparkSession, name: str, snapshot: Snapshot) -> DataFrame:
    columns = to_spark(all_nullable(without_column_mapping(snapshot.schema)))
    columns.fields[0].metadata = {**columns.fields[0].metadata, _VIEW: name}
    session = spark._jsparkSession  # noqa: SLF001 - a DataFrame of Python's rows would start Python workers
    no_rows = spark.sparkContext._jsc.emptyRDD()  # noqa: SLF001 - as above; of an empty list Spark would know that it is empty
    return DataFrame(session.createDataFrame(no_rows, session.parseDataType(columns.json())), spark)


def _unexecuted(spark: SparkSession, query: str) -> Any:
    """The execution of the query, which does not run commands, either."""
    state, mode = session_state(spark), active_jvm().org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    return state.executePlan(state.sqlParser().parsePlan(query), mode)


def _reads(
    spark: SparkSession, node: Any, above: Sequence[Any], tables: Mapping[str, Snapshot]
) -> Iterator[tuple[str, Pushdown]]:
    """For each stand-in below a node of an optimized plan, the view's name and what is needed of it.

    Args:
        spark: The session.
        node: The node.
        above: The nodes directly above that only select among its columns and rows: at most one projection, then filters.
        tables: The tables, by names of their views.
    """
    kind = node.nodeName()
    if kind == "LogicalRDD":
        name = _view(node)
        if name is not None and name in tables:
            yield name, _needed(spark, node, above, tables[name])
        return
    above = (node,) if kind in _CHOOSE_COLUMNS else (*above, node) if kind == "Filter" else ()
    for child in members(node.children()):
        yield from _reads(spark, child, above, tables)


def _view(leaf: Any) -> str | None:
    """The view of a leaf; None if the leaf is not a stand-in."""
    first, *_ = json.loads(leaf.schema().json())["fields"] or [{"metadata": {}}]
    name: str | None = first["metadata"].get(_VIEW)
    return name


def _needed(spark: SparkSession, leaf: Any, above: Sequence[Any], snapshot: Snapshot) -> Pushdown:
    columns = None
    if above and above[0].nodeName() in _CHOOSE_COLUMNS:
        # The leaf's own names: references use the spelling of the query, and so do intersections in 4.3.
        own = leaf.outputSet()
        taken = (_difference(own, _difference(own, node.references())) for node in above)
        columns = frozenset(str(column.name()) for columns in taken for column in members(columns.toSeq()))
    conditions = [part for node in above if node.nodeName() == "Filter" for part in conjuncts(node.condition())]
    decided = [part for part in conditions if part.deterministic() and part.references().subsetOf(leaf.outputSet())]
    return Pushdown(columns=columns, predicate=predicate_in(spark, decided, snapshot.schema, snapshot.table_uri))


def _difference(attributes: Any, others: Any) -> Any:
    return getattr(attributes, "$minus$minus")(others)


def _merged(pushdowns: Sequence[Pushdown]) -> Pushdown:
    """What all of them need, combined."""
    columns = [pushdown.columns for pushdown in pushdowns if pushdown.columns is not None]
    return Pushdown(
        columns=frozenset().union(*columns) if len(columns) == len(pushdowns) else None,
        predicate=disjunction(pushdown.predicate for pushdown in pushdowns),
    )
