"""Writing rows as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import Source
from airflow_delta.operators.arguments import source_of
from airflow_delta.operators.written_rows import DeltaWrittenRowsOperator


class DeltaWriteOperator(DeltaWrittenRowsOperator):
    """Write the rows of a source into a Delta table, as one commit; the first write creates the table.

    Takes ``mode``, ``replace_where``, ``partition_by``, ``cluster_by``, ``merge_schema``, ``overwrite_schema``,
    ``by_position``, ``expect``, ``properties``, ``txn``, ``user_metadata``, ``dry_run`` and ``publish``, too
    (``help(airflow_delta.operators.written_rows.DeltaWrittenRowsOperator)``).

    Args:
        table: URI of the table's root (templated).
        source: URI of a Delta table, or a source value (templated).
        source_version: Version of the source table to read (templated). Default: the latest when the job starts.
    """

    template_fields: Sequence[str] = (*DeltaWrittenRowsOperator.template_fields, "source", "source_version")

    def __init__(self, *, source: str | Source, source_version: int | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.source_version = source_version

    def rows(self) -> Source:
        """The source, at ``source_version`` if that is given."""
        return source_of(self.source, self.source_version)
