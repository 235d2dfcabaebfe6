"""Cloning a table as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_delta.core.statements import CloneStatement, Statement, TableSource
from airflow_delta.operators.arguments import argument_names, source_of
from airflow_delta.operators.core import DeltaCoreOperator


class DeltaCloneOperator(DeltaCoreOperator):
    """Make a new Delta table on the files of another one, without copying a file (SHALLOW CLONE).

    The clone owns none of these files: a vacuum of the source may delete what only the clone still needs.

    Args:
        table: URI of the new table's root (templated).
        source: URI of the table to clone, or a ``TableSource`` (templated).
        source_version: Version to clone (templated). Default: the latest when the work starts.
        mode: What happens where there is a table: ``error``, ``ignore`` or ``replace``, which only takes the place of a table
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
        mode: str = "error",
        properties: Mapping[str, str] = {},
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.source_version = source_version
        self.mode = mode
        self.properties = properties
        self.dry_run = dry_run

    def statement(self) -> Statement:
        """What is to be done, made from the rendered arguments."""
        return self._statement(source=source_of(self.source, self.source_version))
