"""Cloning a table as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_delta.core.statements import CloneStatement, Statement, TableSource
from airflow_delta.operators.arguments import argument_names, source_of
from airflow_delta.operators.core import DeltaCoreOperator


class DeltaCloneOperator(DeltaCoreOperator):
    """Make a new Delta table on the files of another one (SHALLOW CLONE), or on copies of them (DEEP CLONE).

    A shallow clone refers to the source's files: a vacuum of the source may delete files that only the clone still needs. A
    deep clone is independent of its source, and may lie on another kind of storage.

    Args:
        table: URI of the new table's root (templated).
        source: URI of the table to clone, or a ``TableSource`` (templated).
        source_version: Version to clone (templated). Default: the latest when the work starts.
        deep: Copy the files: on Spark's executors or, with ``engine="worker"``, in the Airflow worker (templated).
        mode: What happens if the table exists: ``error``, ``ignore`` or ``replace``; a shallow clone only replaces a table
            without files (templated).
        properties: Table properties that differ from the source's (templated).
        dry_run: Check, and report what would be cloned, but commit nothing (templated).
    """

    statement_type = CloneStatement
    template_fields: Sequence[str] = (*DeltaCoreOperator.template_fields, *argument_names(statement_type), "source_version")

    def __init__(
        self,
        *,
        source: str | TableSource,
        source_version: int | str | None = None,
        deep: bool | str = False,
        mode: str = "error",
        properties: Mapping[str, str] = {},
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.source_version = source_version
        self.deep = deep
        self.mode = mode
        self.properties = properties
        self.dry_run = dry_run

    def statement(self) -> Statement:
        """The statement, made from the rendered arguments."""
        return self._statement(source=source_of(self.source, self.source_version))
