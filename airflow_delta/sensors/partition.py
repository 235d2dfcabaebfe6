"""Waiting for partitions that hold rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import Context

from airflow_delta.core.errors import TableNotFoundError
from airflow_delta.core.foreign_values import printable
from airflow_delta.core.statements.fields import is_template
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.core.statements.validation import require_text
from airflow_delta.hooks.checked_arguments import without_run
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.sensors.wait import DeltaWaitSensor
from airflow_delta.watch.waits import PartitionWait

if TYPE_CHECKING:
    from airflow_delta.watch.partition_watch import PartitionWatch


class DeltaPartitionSensor(DeltaWaitSensor):
    """Wait until partitions of a Delta table hold enough rows, and return the version. A missing table is waited for.

    Rows are counted from the log, without reading data files, whichever commits added them: a partition that was filled before
    the sensor started counts, and one that was emptied does not. To wait for changes by commits, use ``DeltaCommitSensor``.

    Args:
        table: URI of the table's root, its path below the connection's table root, or its name in the connection's catalog
            (templated).
        partitions: Predicate over partition columns that selects the partitions (templated), such as ``"day = DATE'{{ ds
            }}'"``.
        min_rows: How many rows the partitions must hold together (templated). Default: 1, so that one of them exists. A file
            without a number of rows in its statistics counts as one row.
        delta_conn_id: The ``delta`` connection (templated).
        deferrable: Wait in the triggerer, without a worker (templated).
        retry_policy: Which errors are retried. Default: those that another try may overcome.
    """

    template_fields: Sequence[str] = (*DeltaWaitSensor.template_fields, "partitions", "min_rows")
    argument_types: ClassVar[Mapping[str, Any]] = {**DeltaWaitSensor.argument_types, "min_rows": int}

    def __init__(self, *, partitions: str, min_rows: int | str = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.partitions = partitions
        self.min_rows: Any = min_rows

    def check_arguments(self) -> None:
        """Refuse an empty predicate, and a number of rows below 1.

        Raises:
            InvalidStatementError: ``partitions`` is empty, or ``min_rows`` is less than 1.
        """
        super().check_arguments()
        known = without_run(self)
        require_text(type(self).__name__, "partitions", known.partitions)
        if not is_template(known.min_rows) and known.min_rows < 1:
            raise self.invalid(f"min_rows must be at least 1, found {known.min_rows}")

    def begin(self, context: Context) -> PartitionWatch:
        """The watch of this task run: versions whose rows an earlier process has counted are not read again."""
        from airflow_delta.watch.partition_watch import PartitionWatch  # noqa: PLC0415 - DAG files need no log

        self.check_arguments()
        wait = PartitionWait(partitions=self.partitions, min_rows=self.min_rows)
        store = DeltaHook(self.delta_conn_id).log_store(self.table)
        self.log.info("Waiting for %s rows of %s where %s", self.min_rows, self.table, self.partitions)
        try:
            progress = self.progress(context).load()
            wait = replace(wait, after=progress.get("after", NO_TABLE), written=progress.get("written"))
        except Exception as error:  # noqa: BLE001 - progress only saves reading
            self.log.info("the log is read from the beginning: %s", printable(str(error)))
        return PartitionWatch(store, wait)

    def question(self) -> Any:
        """The predicate and the number of rows."""
        return [self.partitions, self.min_rows]

    def found_instead(self) -> str:
        """The number of rows that match, and the latest version."""
        from airflow_delta.watch.partition_watch import rows_in  # noqa: PLC0415 - DAG files need no log

        latest = super().found_instead()
        try:
            snapshot = DeltaHook(self.delta_conn_id).delta_log(self.table).snapshot()
        except TableNotFoundError:
            return latest
        return f"{rows_in(snapshot, self.partitions):,} rows where {self.partitions}; {latest}"
