"""What the operators that write rows have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from airflow_delta.core.statements import Expectation, Source, WriteStatement
from airflow_delta.operators.job import DeltaJobOperator


class DeltaWrittenRowsOperator(DeltaJobOperator):
    """Write rows into a Delta table, as one commit; the first write makes the table.

    :param mode: ``append``, ``overwrite`` or ``replace_where`` (templated).
    :param replace_where: Spark SQL over partition columns: the rows that are replaced; every written row must fulfil it
        (templated). Only with the mode ``replace_where``.
    :param partition_by: Partition columns when the table is made.
    :param expect: Checks on the rows to be written, as Spark SQL (templated); one that fails keeps the commit from happening.
    :param properties: Table properties when the table is made.
    :param dry_run: Check, but commit nothing.
    """

    template_fields: Sequence[str] = (*DeltaJobOperator.template_fields, "mode", "replace_where", "expect")
    script = "write"

    def __init__(
        self,
        *,
        mode: str = "append",
        replace_where: str | None = None,
        partition_by: Sequence[str] = (),
        expect: Sequence[Expectation | str] | Expectation | str = (),
        properties: Mapping[str, str] = MappingProxyType({}),
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.mode = mode
        self.replace_where = replace_where
        self.partition_by = partition_by
        self.expect = expect
        self.properties = properties
        self._dry_run = dry_run

    @abstractmethod
    def rows(self) -> Source:
        """Where the rows come from, made from the rendered arguments."""

    def statement(self) -> WriteStatement:
        """What the job is to do, made from the rendered arguments."""
        return WriteStatement(
            table=self.table,
            source=self.rows(),
            mode=self.mode,  # type: ignore[arg-type]  # the text becomes a mode
            replace_where=self.replace_where,
            partition_by=self.partition_by,  # type: ignore[arg-type]  # any sequence becomes a tuple
            expect=self.expect,  # type: ignore[arg-type]  # texts become expectations
            properties=self.properties,
            dry_run=self._dry_run,
        )
