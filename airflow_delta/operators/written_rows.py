"""Base of the operators that write rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_delta.core.statements import Expectation, Source, Statement, WriteStatement
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.job import DeltaJobOperator

_OF_WRITES = argument_names(WriteStatement, but=("source", "expect", "dry_run", "publish"))
"""Arguments that only a write has, and a merge has not."""


class DeltaWrittenRowsOperator(DeltaJobOperator):
    """Write rows into a Delta table, as one commit; the first write creates the table.

    Args:
        mode: ``append``, ``overwrite``, ``replace_where``, ``dynamic_overwrite`` (replaces the partitions that get rows),
            ``create`` (the table must not exist) or ``create_or_replace`` (replaces columns, partitioning and properties, too,
            but keeps the history) (templated).
        replace_where: Condition on the rows that are replaced, as Spark SQL over the table's columns; every written row must
            satisfy it, too (templated). Only with the mode ``replace_where``. With a condition on partition columns only, no
            file of the table is read.
        partition_by: Partition columns, when the write creates or replaces the table (templated).
        cluster_by: Clustering columns, when the write creates or replaces the table: at most four, not together with
            ``partition_by`` (templated).
        merge_schema: Add columns that only the rows have to the table, at any depth (templated).
        overwrite_schema: Replace the table's columns and partitioning by those of the rows (templated). Only with the mode
            ``overwrite``.
        by_position: Match the columns of the rows to those of the table by position instead of by name (templated). The table
            must exist, and the rows must have as many columns.
        expect: Data-quality checks on the rows to be written, as Spark SQL (templated); if one fails, nothing is committed.
        properties: Table properties, when the write creates or replaces the table (templated).
        txn: Id of an application and a number that grows with each of its writes (templated): a write commits nothing if its
            number is not greater than the last one that the table has recorded for the application.
        user_metadata: Free text that the commit records for people to read (templated).
        dry_run: Check, but commit nothing (templated).
        publish: ``"later"`` stages the commit, invisible to readers until ``DeltaPublishOperator`` makes it from the handle in
            the XCom ``delta_staged`` (templated). Default: ``"now"``.
    """

    statement_type = WriteStatement
    template_fields: Sequence[str] = (*DeltaJobOperator.template_fields, *argument_names(statement_type, but=("source",)))

    def __init__(
        self,
        *,
        mode: str = "append",
        replace_where: str | None = None,
        partition_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        merge_schema: bool | str = False,
        overwrite_schema: bool | str = False,
        by_position: bool | str = False,
        expect: Sequence[Expectation | str] | Expectation | str = (),
        properties: Mapping[str, str] = {},
        txn: tuple[str, int | str] | None = None,
        user_metadata: str | None = None,
        dry_run: bool | str = False,
        publish: str = "now",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.mode = mode
        self.replace_where = replace_where
        self.partition_by = partition_by
        self.cluster_by = cluster_by
        self.expect = expect
        self.properties = properties
        self.txn = txn
        self.user_metadata = user_metadata
        self.merge_schema = merge_schema
        self.overwrite_schema = overwrite_schema
        self.by_position = by_position
        self.dry_run = dry_run
        self.publish: Any = publish

    @abstractmethod
    def rows(self) -> Source:
        """The source of the rows, made from the rendered arguments."""

    def statement(self) -> Statement:
        """The statement, made from the rendered arguments."""
        return self._statement(source=self.rows())


def given_for_writes(operator: DeltaWrittenRowsOperator) -> list[str]:
    """Names of the given arguments that only a write takes."""
    return [name for name in _OF_WRITES if getattr(operator, name) not in (None, False, "append", (), {})]
