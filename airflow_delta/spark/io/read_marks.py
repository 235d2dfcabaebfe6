"""Where a scan in a plan of Spark's says which table it reads: a statement looks for scans of its own target.

In a classic session that is a reader's option, or metadata of a column (``READ_MARK``). Of a plan of Spark Connect only a text
is to be had, which shows neither: there the rows of a table bear an alias.
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
    """The rows of a table's version, such that a plan of Spark Connect shows which they are."""
    return rows.alias(f"{_ALIAS}{table.mark.encode().hex()}") if is_connect(rows.sparkSession) else rows


def shown_reads(plans: str) -> Iterator[tuple[str, str]]:
    """The reads in the analyzed plan of what ``explained`` gives.

    Returns:
        ``MARK`` and ``TableFiles.mark`` for each marked read; of each other read of files or tables Spark's name for it
        (``Relation``, ``RelationV2``) and what is shown behind that.

    Raises:
        SparkConnectUnsupportedError: The plan is not shown to its end.
    """
    within: int | None = None  # the depth of the marked read that this node is a part of
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
    """Whether the analyzed plan of rows of one relation has a second branch: only a subquery makes one.

    Raises as ``shown_reads``.
    """
    return any(":" in branches for branches, _, _ in _nodes(plans))


def _nodes(plans: str) -> Iterator[tuple[str, str, str]]:
    """How far each node is set in, its name and what follows; nodes of subqueries too."""
    found = _ANALYZED.search(plans)
    if found is None:
        instead = "unset spark.sql.maxPlanStringLength in the session, or use a classic one"
        raise SparkConnectUnsupportedError(feature="a statement of which Spark shows a part of the plan only", instead=instead)
    for line in found[1].splitlines()[1:]:  # the first one shows the columns
        node = _NODE.match(line)
        if node is not None:
            yield node["branches"], node["name"], node["rest"]
