"""Maintenance of a table as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from airflow.sdk import Context

from airflow_delta.catalogs.errors import CatalogRequestError
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.foreign_values import printable
from airflow_delta.core.statements import MaintenanceStatement
from airflow_delta.core.statements.fields import is_template
from airflow_delta.core.statements.health import STEPS
from airflow_delta.hooks.xcoms import push_xcom
from airflow_delta.jobs.best_effort import BestEffort
from airflow_delta.jobs.catalog_publication import DETAIL, with_mended_entry
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.attempt import Attempt
from airflow_delta.operators.core import DeltaCoreOperator, Engine

_SMALL = 16 << 20


class DeltaMaintenanceOperator(DeltaCoreOperator):
    """Do the maintenance that is due on a Delta table, in at most one Spark session; map it for several tables.

    The steps, in this order: ``optimize`` (small files), ``statistics`` (of files without statistics), ``vacuum`` (files that
    neither a version within the retention nor a pin needs), ``checkpoint``, ``compact_log``, ``clean_up_log``. The result's
    ``details["steps"]`` says for each step what was found and done: ``step``, ``due``, ``why``, ``done``, ``version``,
    ``metrics``.

    With ``mend_catalog``, the table's entry in the connection's catalog is then made to agree with the table's log, whether or
    not a step was due: location, columns, partitioning, properties, comment. ``details["catalog"]["published"]`` says what
    differed.

    The steps are independent. A step that fails does not stop the others: the task fails afterwards with an error that names
    the steps that failed and those that were done, and its next try does what is still due.

    Args:
        table: URI of the table's root (templated).
        steps: The steps that may be done (templated). Default: all.
        where: Condition on partition columns, as Spark SQL: the partitions to search for small files (templated). Default: all.
        target_file_size: Size of a rewritten file in bytes (templated). Default: the table's ``delta.targetFileSize``, or 1
            GiB.
        small_file_size: Size in bytes below which a file is small (templated). Default: 16 MiB.
        min_small_files: Number of small files in a partition from which ``optimize`` is due for it (templated). Default: 10.
        max_commits: ``checkpoint`` is due when readers read more commits than this (templated). Default: the table's
            ``delta.checkpointInterval``, or 10.
        max_uncompacted_commits: ``compact_log`` is due when more commits than this are in neither a checkpoint nor a compacted
            file (templated). Default: 50, which only a table with many commits between checkpoints reaches.
        retention_hours: ``vacuum`` keeps files that were removed within this many hours (templated). Default: the table's
            ``delta.deletedFileRetentionDuration``, or a week; less than that is refused.
        mend_catalog: Make the catalog's entry agree with the table; if that fails, the task fails (templated).
        catalog_name: The table's name in the catalog (templated). Default: ``table``, if that is a name. If ``table`` is a
            path, a missing name is created, and a name with another location is moved to this table.
        dry_run: Report what is due and why, but do nothing (templated).
        engine: With ``"auto"``, the default, the worker finds out whether ``optimize`` is due: if so, a Spark job does all
            steps, else the worker does. If the worker cannot read the table, Spark does everything. With ``"worker"``,
            ``optimize`` is only reported as due. ``"spark"`` always submits a job.
    """

    statement_type = MaintenanceStatement
    template_fields: Sequence[str] = (
        *DeltaCoreOperator.template_fields,
        *argument_names(statement_type),
        "mend_catalog",
        "catalog_name",
    )
    argument_types: ClassVar[Mapping[str, Any]] = {**DeltaCoreOperator.argument_types, "mend_catalog": bool}

    def __init__(
        self,
        *,
        steps: Sequence[str] = STEPS,
        where: str | None = None,
        target_file_size: int | str | None = None,
        small_file_size: int | str = _SMALL,
        min_small_files: int | str = 10,
        max_commits: int | str | None = None,
        max_uncompacted_commits: int | str = 50,
        retention_hours: float | str | None = None,
        mend_catalog: bool | str = False,
        catalog_name: str | None = None,
        dry_run: bool | str = False,
        engine: Engine = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(engine=engine, **kwargs)
        self.steps = steps
        self.where = where
        self.target_file_size = target_file_size
        self.small_file_size = small_file_size
        self.min_small_files = min_small_files
        self.max_commits = max_commits
        self.max_uncompacted_commits = max_uncompacted_commits
        self.retention_hours = retention_hours
        self.mend_catalog = mend_catalog
        self.catalog_name = catalog_name
        self.dry_run = dry_run

    def check_arguments(self) -> None:
        """As in every operator; ``mend_catalog`` needs the table's name."""
        from airflow_delta.catalogs.table_name import is_path

        super().check_arguments()
        table = self.table
        if self.mend_catalog is True and not self.catalog_name and not is_template(table) and is_path(table):
            raise self.invalid(f"mend_catalog needs the table's name: give catalog_name beside the path {table!r:.100}")

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # upstream returns nothing
        """As in every operator.

        Raises:
            DeltaError: A step failed, or the catalog could not be mended.
        """
        if self.mend_catalog or self.catalog_name:
            self.hook.name_in_catalog(self._name())
        return super().execute(context)

    def _name(self) -> str:
        return self.catalog_name or self.table

    def _published(self, document: ResultDocument) -> ResultDocument:
        """As in every operator; with ``mend_catalog``, also if no step has committed."""
        if not self.mend_catalog:
            return super()._published(document)
        return with_mended_entry(self.hook, self._name(), document)

    def _is_for_worker(self, attempt: Attempt) -> bool:
        from airflow_delta.jobs.maintenance import Maintenance

        if self.engine != "auto" or not super()._is_for_worker(attempt):
            return super()._is_for_worker(attempt)
        statement = cast("MaintenanceStatement", attempt.statement)
        if statement.dry_run or "optimize" not in statement.steps:
            return True
        need = Maintenance(log=self.hook.delta_log(statement.table), statement=statement).optimize_need()
        self.log.info("optimize: %s", need.why)
        return not need.due

    def _deliver(self, document: ResultDocument, context: Context) -> dict[str, Any]:
        with BestEffort().attempt("logging the steps"):
            for step in document.outcome.details.get("steps", ()) if document.outcome else ():
                state = "done" if step["done"] else "due" if step["due"] else "not due"
                self.log.info("%s", printable(f"{step['step']} is {state}: {step['why']}"))
        result = super()._deliver(document, context)
        error = result["details"].get(DETAIL, {}).get("error") if self.mend_catalog else None
        if error is not None:
            push_xcom(context, "return_value", result)  # Airflow pushes it only for successes
            raise DeltaError.from_json(error) or CatalogRequestError(
                catalog=self.hook.catalog_label, name=self._name(), detail=str(error)[:1_000]
            )
        return result
