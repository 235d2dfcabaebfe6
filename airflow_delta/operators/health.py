"""The health check of a table as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from airflow.sdk import Context

from airflow_delta.core.foreign_values import printable
from airflow_delta.core.statements import HealthStatement
from airflow_delta.hooks.xcoms import push_xcom
from airflow_delta.jobs.catalog_publication import with_drift
from airflow_delta.jobs.errors import TableUnhealthyError
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.core import DeltaCoreOperator, Engine

Severity = Literal["error", "warning"]
"""Least severity of a finding that fails the task."""

_FAILING = {None: (), "error": ("error",), "warning": ("error", "warning")}


class DeltaTableHealthOperator(DeltaCoreOperator):
    """Report the problems of a Delta table and their remedies, even if the table cannot be opened. Nothing is changed.

    The result's ``details`` hold ``findings`` (``severity``, ``code``, ``text``, ``remedy``, ``files``; the worst first) and
    ``figures``: ``files``, ``bytes``, ``small_files``, ``deletion_vectors``, ``commits_since_checkpoint``, ``unneeded_files``,
    ``unneeded_bytes``. The XCom is also pushed when the task fails.

    If the table has a name in a catalog, a finding ``CATALOG_DRIFT`` says how the catalog's entry differs from the table.

    Args:
        table: URI of the table's root (templated).
        list_files: Also find missing and unneeded data files, by one flat listing of the table (templated).
        fail_on: The task fails on a finding of at least this severity: ``"error"`` (rows are wrong, missing or unreadable) or
            ``"warning"`` (something is lost or will fail); with None, it never fails (templated).
        catalog_name: The table's name in the catalog of the connection (templated). Default: ``table``, if that is a name. If
            ``table`` is a path, the check also notices that the name is missing or has another location.
        engine: Default: ``"auto"``. The check takes less time than starting a JVM, so Spark is only used if the worker cannot
            read the table.
    """

    statement_type = HealthStatement
    template_fields: Sequence[str] = (
        *DeltaCoreOperator.template_fields,
        *argument_names(statement_type),
        "fail_on",
        "catalog_name",
    )
    argument_types: ClassVar[Mapping[str, Any]] = {**DeltaCoreOperator.argument_types, "fail_on": Severity | None}

    def __init__(
        self,
        *,
        list_files: bool | str = True,
        fail_on: Severity | None = "error",
        catalog_name: str | None = None,
        engine: Engine = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(engine=engine, **kwargs)
        self.list_files = list_files
        self.fail_on = fail_on
        self.catalog_name = catalog_name

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # upstream returns nothing
        """As in every operator. Raises ``DeltaConnectionError`` if ``catalog_name`` is not a name in the catalog."""
        if self.catalog_name:
            self.hook.name_in_catalog(self.catalog_name)
        return super().execute(context)

    def _name(self) -> str:
        return self.catalog_name or self.table

    def _deliver(self, document: ResultDocument, context: Context) -> dict[str, Any]:
        if not self.hook.has_session_catalog:  # else the job has compared them
            document = with_drift(self.hook, self._name(), document)
        for finding in document.outcome.details["findings"] if document.outcome else ():
            files = f" ({', '.join(finding['files'])})" if finding["files"] else ""
            line = f"{finding['severity']} {finding['code']}: {finding['text']}{files}. Remedy: {finding['remedy']}"
            self.log.warning("%s", printable(line))
        result = super()._deliver(document, context)
        findings = result["details"]["findings"]
        bad = [finding for finding in findings if finding["severity"] in _FAILING[self.fail_on]]
        if bad:
            push_xcom(context, "return_value", result)  # Airflow pushes it only for successes
            raise TableUnhealthyError(
                table=result["table"],
                findings=tuple(f"{finding['code']}: {finding['text']}" for finding in bad),
                cure="; ".join(dict.fromkeys(finding["remedy"] for finding in bad)),
            )
        return result
