"""Tracks a statement's reads of its own target table, which belong to its transaction.

A source, a value or an expectation may read the target: as a table or view of the statement, through a view of the session, or
in rows that a script passes. Spark's plan shows which tables a DataFrame reads: this package's scans (``READ_MARK``) and
``format("delta")`` are marked, and files below the table's root are recognized by their paths. Reads that are no longer part of
the plan are not noticed: rows that were collected, checkpointed or written elsewhere before.

Such a read is recorded with its condition if that is known (else as the whole table), so that the commit is not a blind append,
and concurrent commits that change what was read conflict. The statement then reads and computes everything again. Spark Connect
provides plans only as text, so there each read counts as the whole table. Rows that are bound to a version, such as those of
``DeltaTable.toDF``, cannot be read again: the statement is then computed from their version, and a conflict is raised to the
caller. Reads by explicit version or time do not count.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from posixpath import dirname
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.data_files.changed_rows import CHANGE_FIELDS
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError, InvalidStatementError
from airflow_delta.core.predicate import TRUE, Expression
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.place import Place
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from airflow_delta.spark.errors import SparkConnectUnsupportedError
from airflow_delta.spark.hadoop.table_log import table_place
from airflow_delta.spark.io.read_marks import MARK, shown_reads, shows_subquery
from airflow_delta.spark.io.table_files import READ_MARK
from airflow_delta.spark.jvm import analyzed_plan, is_connect
from airflow_delta.spark.session import explained
from airflow_delta.spark.spark_features import keeps_data_source_reads
from airflow_delta.spark.statement.format_options import ReadOptions
from airflow_delta.spark.statement.plan_conditions import conjuncts, members, predicate_in

VIEW_OF_TARGET = "airflow_delta_target"
"""Alias of a statement's own view of its target in plans: conditions directly above it are about the table's columns."""

_MANY_PATHS = 100
_SHOWN_COLUMN = re.compile(r"(\w+)#\d+")
_LAST_WORD = re.compile(r"\w+$")
_MAX_MOVES = 20
_Result = TypeVar("_Result")

Version = TypeVar("Version", Snapshot, Snapshot | None)
"""The version that an attempt of a statement is based on; None if there is no table yet."""


class ReadAtOtherVersionError(Exception):
    """Rows of the target were read from another version than the one that the statement is based on."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


@dataclass(slots=True, kw_only=True, eq=False)
class TargetReads:
    """What one attempt of a statement reads of its target, apart from the rows that it changes.

    Attributes:
        spark: The session.
        snapshot: The version that the attempt is based on; None if there is no table yet.
        is_retry: Whether an earlier attempt ended in a conflict.
        predicates: Predicates of the rows read.
    """

    spark: SparkSession
    snapshot: Snapshot | None
    is_retry: bool = False
    predicates: list[Expression] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether anything was read."""
        return bool(self.predicates)

    def look_into(self, rows: DataFrame) -> None:
        """Record what these rows, which are about to be computed, read of the target.

        Raises:
            ReadAtOtherVersionError: They read another version than ``snapshot``.
        """
        if self.snapshot is None:
            return
        target = _Target(self.spark, self.snapshot)
        plan = None if is_connect(self.spark) else analyzed_plan(rows)
        plans = [] if plan is None else [plan, *members(plan.subqueriesAll())]
        leaves = (target.version_read(leaf) for plan in plans for leaf in members(plan.collectLeaves()))
        found = target.versions_shown(rows) if plan is None else leaves
        versions = {version for version in found if version is not None}
        if others := versions - {self.snapshot.version, *([] if self.is_retry else [_UNKNOWN_VERSION])}:
            raise ReadAtOtherVersionError(min(others))
        if versions:
            self.predicates += [TRUE] if plan is None else [*target.predicates(plan, [])] or [TRUE]

    def record(self, transaction: OptimisticTransaction) -> None:
        """Make the transaction depend on these reads."""
        for predicate in dict.fromkeys(self.predicates):
            transaction.files(predicate)


def at_version_read(
    log: DeltaLog, snapshot: Version, attempt: Callable[[Version], _Result], *, conflict: DeltaError | None
) -> _Result:
    """Attempt a statement on the newest version, or on the version to which rows passed to it are bound.

    Args:
        log: The table's log.
        snapshot: The newest version; None without a table.
        attempt: Makes an attempt on a version; its ``ReadAtOtherVersionError`` is handled here.
        conflict: The conflict that made this attempt necessary; None for the first one.

    Raises:
        CommitConflictError: ``conflict``: the rows cannot be read again.
        InvalidStatementError: Rows are bound to several versions of the table.
    """
    moved = False
    for _ in range(_MAX_MOVES):
        try:
            return attempt(snapshot)
        except ReadAtOtherVersionError as read:
            is_older = snapshot is not None and read.version < snapshot.version
            if is_older and conflict is not None:
                raise conflict from None
            if is_older and moved:
                break
            snapshot, moved = log.snapshot(read.version), True
    detail = (
        f"its rows come from several versions of {log.table_uri}, the table that it changes, each read as the newest one; "
        "read the table once, or name the version of each read (version, versionAsOf)"
    )
    raise InvalidStatementError(statement="the statement", detail=detail)


_UNKNOWN_VERSION = -1
"""Used instead of a version for rows that are not bound to one, if it is unknown whether a retry would read them again."""


@dataclass(frozen=True, slots=True)
class _Target:
    """The target table, as it is searched for in plans, which are JVM objects."""

    spark: SparkSession
    snapshot: Snapshot

    def version_read(self, leaf: Any) -> int | None:
        """The version of the target that a leaf of a plan reads because it is the newest; None for any other read."""
        match leaf.nodeName():
            case "LocalRelation" | "LogicalRDD":
                return self._marked(_mark_of_columns(leaf))
            case "LogicalRelation" if leaf.relation().getClass().getSimpleName() == "HadoopFsRelation":
                mark = leaf.relation().options().get(READ_MARK)
                return self._marked(mark.get()) if mark.isDefined() else self._of_files(_root_paths(leaf.relation()))
            case "DataSourceV2Relation" if leaf.table().getClass().getSimpleName() == "PythonTable":
                return self._of_data_source(leaf)
            case _:
                return None

    def versions_shown(self, rows: DataFrame) -> Iterator[int | None]:
        """``version_read`` for every read in rows of Spark Connect, whose plan is only available as text."""
        for kind, text in shown_reads(explained(rows)):
            if kind == MARK:
                yield self._marked(text)
            elif text.endswith(" delta") and self._may_show(text):
                # The server bound the rows to a version at their first computation, and does not show which.
                instead = "read tables by DeltaTable.forPath(spark, path).toDF(), or as a source or view of the statement"
                feature = f"a statement on {self.snapshot.table_uri} with rows that format('delta') may have read from it"
                raise SparkConnectUnsupportedError(feature=feature, instead=instead)
            else:
                yield self._of_files(rows.inputFiles())

    def _may_show(self, text: str) -> bool:
        """Whether all columns that a relation shows could be the table's or its change feed's, by their last name parts."""
        names = (*self.snapshot.schema.names, *(field.name for field in CHANGE_FIELDS))
        words = {word[0] for name in names if (word := _LAST_WORD.search(name))}
        return {*_SHOWN_COLUMN.findall(text)} <= words

    def _marked(self, text: str | None) -> int | None:
        mark = json.loads(text) if text else {}
        version = mark.get("newest")
        return version if version is not None and self._is_at(mark["table"]) else None

    def _of_files(self, files: Iterable[str]) -> int | None:
        paths = set(files)
        if len(paths) > _MANY_PATHS:
            paths = {dirname(path) for path in paths}
        place = self._place
        with suppress(InvalidStatementError):  # not a valid place for a table
            return _UNKNOWN_VERSION if any(table_place(self.spark, path).overlaps(place) for path in paths) else None
        return None

    def _of_data_source(self, leaf: Any) -> int | None:
        """The version to which ``format("delta")`` has bound its rows; it does so when they are first computed, or here."""
        table = leaf.table()
        if table.name() != "delta":
            return None
        options = ReadOptions.of(dict(leaf.options().asCaseSensitiveMap()))
        is_newest = options.changes[1] is None if options.changes else options.version is None and options.timestamp is None
        if not is_newest or not self._is_at(options.path):
            return None
        if not keeps_data_source_reads(self.spark):
            return _UNKNOWN_VERSION
        source = table.getClass().getDeclaredField("ds")
        source.setAccessible(True)
        planned = source.get(table).getOrCreateReadInfo("delta", leaf.options(), table.schema(), False)
        partition = pickle.loads(bytes(planned.partitions().head()))  # noqa: S301 - of our own, made by this driver
        version: int = partition.version
        return version

    def predicates(self, node: Any, conditions: Sequence[Any]) -> Iterator[Expression]:
        """For each read of the target in a plan, the rows read, as far as the conditions directly above it show."""
        kind = node.nodeName()
        if kind == "SubqueryAlias" and node.alias() == VIEW_OF_TARGET:
            yield self._reported(conditions)
            return
        children = members(node.children())
        if not children and self.version_read(node) is not None:
            yield self._reported(conditions)
        if kind == "Filter":
            conditions = [*conditions, *conjuncts(node.condition())]
        elif kind not in ("SubqueryAlias", "View") and not _only_chooses(node):
            conditions = []
        for child in children:
            yield from self.predicates(child, conditions)
        for subquery in members(node.subqueries()):
            yield from self.predicates(subquery, [])

    def _reported(self, conditions: Sequence[Any]) -> Expression:
        return predicate_in(self.spark, conditions, self.snapshot.schema, self.snapshot.table_uri)

    @property
    def _place(self) -> Place:
        return table_place(self.spark, self.snapshot.table_uri)

    def _is_at(self, uri: str) -> bool:
        return table_place(self.spark, uri) == self._place


def holds_subquery(rows: DataFrame) -> bool:
    """Whether a condition or value of these rows from a single relation contains a subquery."""
    if is_connect(rows.sparkSession):
        return shows_subquery(explained(rows))
    return bool(analyzed_plan(rows).subqueriesAll().nonEmpty())


def _root_paths(relation: Any) -> list[str]:
    return str(relation.location().rootPaths().mkString("\n")).split("\n")


def _mark_of_columns(leaf: Any) -> str | None:
    """The mark of a task listing."""
    schema = leaf.schema().json()
    if READ_MARK not in schema:
        return None
    marks = (field["metadata"].get(READ_MARK) for field in json.loads(schema)["fields"])
    return next((mark for mark in marks if mark), None)


def _only_chooses(node: Any) -> bool:
    """Whether a node only selects some of the columns below it, under their own names."""
    return node.nodeName() == "Project" and all(map(_is_passed_on, members(node.projectList())))


def _is_passed_on(column: Any) -> bool:
    """Whether a column of a plan is one from below, unchanged, or a float as of ``float_order.unskipped``."""
    if column.nodeName() != "Alias":
        return bool(column.nodeName() == "AttributeReference")
    value = column.child()
    return bool(
        value.nodeName() == "NaNvl"
        and value.left().nodeName() == "AttributeReference"
        and value.left().name() == column.name()
        and value.left().semanticEquals(value.right())
    )
