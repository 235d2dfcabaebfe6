"""The base of the operators that write rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_delta.core.statements import Expectation, Source, Statement, WriteStatement
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.job import DeltaJobOperator

_OF_WRITES = argument_names(WriteStatement, but=("source", "expect", "dry_run", "publish"))
"""What only a write takes."""


class DeltaWrittenRowsOperator(DeltaJobOperator):
    """Write rows into a Delta table, as one commit; the first write makes the table.

    Args:
        mode: ``append``, ``overwrite``, ``replace_where``, ``dynamic_overwrite`` (the partitions that rows come into are
            replaced), ``create`` (there must be no table) or ``create_or_replace`` (columns, partitioning and properties too;
            the history stays) (templated).
        replace_where: Spark SQL over the table's columns: the rows that are replaced; every written row must satisfy it
            (templated). Only with the mode ``replace_where``. No file is opened where partition columns alone decide it.
        partition_by: Partition columns when the table is made (templated).
        cluster_by: Clustering columns when the table is made, at most four; not together with ``partition_by`` (templated).
        merge_schema: Add the columns that only the rows have to the table, at any depth (templated).
        overwrite_schema: Give the table the columns and the partitioning of the rows (templated). Only with the mode
            ``overwrite``.
        by_position: The first column of the rows is the table's first, and so on, whatever they are called (templated). There
            must be a table, and as many columns as it has.
        expect: Data-quality checks on the rows to be written, as Spark SQL (templated); if one fails, nothing is committed.
        properties: Table properties when the table is made (templated).
        txn: Name of an application and a number that grows with each of its writes (templated): a write whose number is not
            greater than the table's last one for that application commits nothing.
        user_metadata: Text that the commit carries for people (templated).
        dry_run: Check, but commit nothing (templated).
        publish: ``"later"`` stages the commit, to be made by ``DeltaPublishOperator``: its handle is the XCom ``delta_staged``,
            and nobody sees the rows before (templated). Default: ``"now"``.
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
        """Where the rows come from, made from the rendered arguments."""

    def statement(self) -> Statement:
        """What the job is to do, made from the rendered arguments."""
        return self._statement(source=self.rows())


def given_for_writes(operator: DeltaWrittenRowsOperator) -> list[str]:
    """The names of the arguments that say how rows are written, and that are given."""
    return [name for name in _OF_WRITES if getattr(operator, name) not in (None, False, "append", (), {})]
