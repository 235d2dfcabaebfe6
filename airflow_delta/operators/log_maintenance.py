"""Log compaction and log cleanup as tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import CleanUpLogStatement, CompactLogStatement
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.core import DeltaCoreOperator


class DeltaCompactLogOperator(DeltaCoreOperator):
    """Write consecutive commits of a Delta table into one compacted log file, so that readers need fewer requests.

    Args:
        table: URI of the table's root (templated).
        start: Version of the first commit (templated). Default: the first that neither a checkpoint nor a compacted file
            covers.
        end: Version of the last commit (templated). Default: the latest version.
    """

    statement_type = CompactLogStatement
    template_fields: Sequence[str] = (*DeltaCoreOperator.template_fields, *argument_names(statement_type))

    def __init__(self, *, start: int | str | None = None, end: int | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start = start
        self.end = end


class DeltaCleanUpLogOperator(DeltaCoreOperator):
    """Delete expired files of a Delta table's log: all before the newest checkpoint that is old enough.

    Old enough means older than the table's ``delta.logRetentionDuration``, by default 30 days.

    Args:
        table: URI of the table's root (templated).
        dry_run: List the files, but delete nothing (templated).
    """

    statement_type = CleanUpLogStatement
    template_fields: Sequence[str] = (*DeltaCoreOperator.template_fields, *argument_names(statement_type))

    def __init__(self, *, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dry_run = dry_run
