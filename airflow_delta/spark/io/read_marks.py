"""Marks in Spark's plans that show which table a scan reads, so that a statement can find scans of its own target.

In a classic session the mark is a reader option, or column metadata (``READ_MARK``). Spark Connect only provides plans as text,
which shows neither: there, the rows of a table get an alias.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.sql import DataFrame

from airflow_delta.spark.errors import SparkConnectUnsupportedError
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.jvm import is_connect

MARK = "mark"
"""Kind of a read that ``marked`` has marked."""

_ALIAS = "airflow_delta_read_"
_ANALYZED = re.compile(r"== Analyzed Logical Plan ==\n(.*?)\n\n== Optimized Logical Plan ==\n", re.DOTALL)
_NODE = re.compile(r"(?P<branches>(?:(?::  |   )*(?::- |\+- ))?)(?P<name>\w+)(?P<rest>.*)")
_READS = ("Relation", "RelationV2")


def marked(rows: DataFrame, table: TableFiles) -> DataFrame:
    """The rows of a table's version, marked so that a plan of Spark Connect identifies them."""
    return rows.alias(f"{_ALIAS}{table.mark.encode().hex()}") if is_connect(rows.sparkSession) else rows


def shown_reads(plans: str) -> Iterator[tuple[str, str]]:
    """The reads in the analyzed plan, from the text that ``explained`` returns.

    Returns:
        For each marked read ``MARK`` and ``TableFiles.mark``; for each other read of files or tables Spark's name of the node
        (``Relation``, ``RelationV2``) and the text after it.

    Raises:
        SparkConnectUnsupportedError: The plan's text is truncated.
    """
    within: int | None = None  # depth of the marked read that contains the current node
    for branches, name, rest in _nodes(plans):
        depth = len(branches)
        if within is not None and depth > within:
            continue
        within = None
        if name == "SubqueryAlias" and rest.startswith(f" {_ALIAS}"):
            within = depth
            yield MARK, bytes.fromhex(rest.removeprefix(f" {_ALIAS}").strip()).decode()
        elif name in _READS:
            yield name, rest


def shows_subquery(plans: str) -> bool:
    """Whether the analyzed plan of rows from a single relation has a second branch, which means a subquery.

    Raises as ``shown_reads``.
    """
    return any(":" in branches for branches, _, _ in _nodes(plans))


def _nodes(plans: str) -> Iterator[tuple[str, str, str]]:
    """Indentation of each node, its name and the text after it; includes nodes of subqueries."""
    found = _ANALYZED.search(plans)
    if found is None:
        instead = "unset spark.sql.maxPlanStringLength in the session, or use a classic one"
        raise SparkConnectUnsupportedError(feature="a statement of which Spark shows a part of the plan only", instead=instead)
    for line in found[1].splitlines()[1:]:  # the first line shows the columns
        node = _NODE.match(line)
        if node is not None:
            yield node["branches"], node["name"], node["rest"]
