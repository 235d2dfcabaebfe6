"""Reads of the very table that a statement changes: they belong to its transaction.

A source, a value or an expectation may read the target: as a table or view of the statement, through a view of the session, or
in rows that a script hands over. Spark's plan shows which tables a DataFrame reads: our own scans (``READ_MARK``) and
``format("delta")`` are marked, and files below the table's root are recognized by their paths. What a plan does not hold is not
seen: rows that were collected, checkpointed or written elsewhere before.

Such a read is recorded with its condition as far as that is known (else the whole table), so that the commit is never a blind
append, and concurrent commits that change what was read are conflicts. Then the statement reads and computes everything anew.
Of a plan of Spark Connect only a text is to be had: there each read counts as one of the whole table.
Rows that are bound to a version, as ``DeltaTable.toDF`` gives them, cannot be read anew: the statement is then computed from
their version, and its conflict is the caller's. A read by version or time is no such read.
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
"""Alias that a statement's own view of its target has in plans: conditions right above it are about the table's columns."""

_MANY_PATHS = 100
_SHOWN_COLUMN = re.compile(r"(\w+)#\d+")
_LAST_WORD = re.compile(r"\w+$")
_MAX_MOVES = 20
_Result = TypeVar("_Result")

Version = TypeVar("Version", Snapshot, Snapshot | None)
"""What an attempt of a statement is computed from; None where there is no table yet."""


class ReadAtOtherVersionError(Exception):
    """Rows of the target were read from another version than the one that the statement stands on."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


@dataclass(slots=True, kw_only=True, eq=False)
class TargetReads:
    """What one attempt of a statement reads of its target, besides what it looks for in order to change it.

    Attributes:
        spark: The session.
        snapshot: The version that the attempt is computed from; None where there is no table yet that could be read.
        is_retry: Whether an earlier attempt ended in a conflict.
        predicates: What was read.
    """

    spark: SparkSession
    snapshot: Snapshot | None
    is_retry: bool = False
    predicates: list[Expression] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.predicates)

    def look_into(self, rows: DataFrame) -> None:
        """Take note of what these rows, which are about to be computed, read of the target.

        Raises:
            ReadAtOtherVersionError: They read another version of it than ``snapshot``.
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
        """Let the transaction depend on it."""
        for predicate in dict.fromkeys(self.predicates):
            transaction.files(predicate)


def at_version_read(
    log: DeltaLog, snapshot: Version, attempt: Callable[[Version], _Result], *, conflict: DeltaError | None
) -> _Result:
    """Attempt a statement on the newest version, or on the one that rows handed to it were read from.

    Args:
        log: The table's log.
        snapshot: The newest version; None where there is no table.
        attempt: An attempt on a version; a ``ReadAtOtherVersionError`` of it is answered.
        conflict: The conflict that makes this attempt necessary; None for the first one.

    Raises:
        CommitConflictError: ``conflict``: the rows cannot be read anew.
        InvalidStatementError: Rows are of several versions of the table.
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
"""In place of a version: rows are not bound to one, and it is unknown whether a retry would read them anew."""


@dataclass(frozen=True, slots=True)
class _Target:
    """The table, as it is looked for in plans; plans are objects of the JVM."""

    spark: SparkSession
    snapshot: Snapshot

    def version_read(self, leaf: Any) -> int | None:
        """The version of the target that a leaf of a plan reads for being the newest; None where it does no such thing."""
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
        """As ``version_read`` for every read of rows of Spark Connect, of whose plan there is no more than a text."""
        for kind, text in shown_reads(explained(rows)):
            if kind == MARK:
                yield self._marked(text)
            elif text.endswith(" delta") and self._may_show(text):
                # Bound to a version, perhaps an older one, when they were first computed: by the server, which does not tell.
                instead = "read tables by DeltaTable.forPath(spark, path).toDF(), or as a source or view of the statement"
                feature = f"a statement on {self.snapshot.table_uri} with rows that format('delta') may have read from it"
                raise SparkConnectUnsupportedError(feature=feature, instead=instead)
            else:
                yield self._of_files(rows.inputFiles())

    def _may_show(self, text: str) -> bool:
        """Whether all columns that a relation shows may be columns of the table or of its change feed: by their last words."""
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
        with suppress(InvalidStatementError):  # a place where no table can be
            return _UNKNOWN_VERSION if any(table_place(self.spark, path).overlaps(place) for path in paths) else None
        return None

    def _of_data_source(self, leaf: Any) -> int | None:
        """The version that ``format("delta")`` has bound its rows to: it does so when they are first computed, or here."""
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
        """For each read of the target in a plan what is read, as far as the conditions right above it show."""
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
    """Whether a condition or value of these rows, which are of one relation, is computed by a query of its own."""
    if is_connect(rows.sparkSession):
        return shows_subquery(explained(rows))
    return bool(analyzed_plan(rows).subqueriesAll().nonEmpty())


def _root_paths(relation: Any) -> list[str]:
    return str(relation.location().rootPaths().mkString("\n")).split("\n")


def _mark_of_columns(leaf: Any) -> str | None:
    """The mark that a listing of files bears."""
    schema = leaf.schema().json()
    if READ_MARK not in schema:
        return None
    marks = (field["metadata"].get(READ_MARK) for field in json.loads(schema)["fields"])
    return next((mark for mark in marks if mark), None)


def _only_chooses(node: Any) -> bool:
    """Whether a node passes on some of the columns below it under their own names."""
    return node.nodeName() == "Project" and all(map(_is_passed_on, members(node.projectList())))


def _is_passed_on(column: Any) -> bool:
    """Whether a column of a plan is one below as it is, or floats as scans pass them on (``float_order.unskipped``)."""
    if column.nodeName() != "Alias":
        return bool(column.nodeName() == "AttributeReference")
    value = column.child()
    return bool(
        value.nodeName() == "NaNvl"
        and value.left().nodeName() == "AttributeReference"
        and value.left().name() == column.name()
        and value.left().semanticEquals(value.right())
    )
