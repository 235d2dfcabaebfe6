"""What a task that has committed leaves in the catalog. Behind a commit nothing fails: an error becomes part of the result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_delta.catalogs.errors import CatalogRequestError
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.errors import DeltaError
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.jobs.redaction import redact
from airflow_delta.jobs.result import ResultDocument

DETAIL = "catalog"
"""Of a result's details: ``catalog`` and ``name``; ``published``, in what the entry differed from the table before (empty: in
nothing); and where it could not be published ``error``, as ``DeltaError.to_json`` has it."""


def with_publication(hook: DeltaHook, table: str, document: ResultDocument) -> ResultDocument:
    """The document of a task that names its table in a catalog, after the table was published there as it is now.

    Each commit publishes the whole table where the catalog says anything else, so that what an earlier task could not write is
    written by the next one. Never raises.

    Args:
        hook: Of the task's connection.
        table: As the task names it; a path is published nowhere.
        document: Of what the task did.
    """
    outcome = document.outcome
    if outcome is None or outcome.dry_run or not isinstance(table, str):
        return document
    try:
        name = hook.table_name(table)
        if name is None:
            return document
        entry: dict[str, Any] = {"catalog": hook.catalog_label, "name": str(name)}
    except Exception:  # noqa: BLE001 - the commit stands; the name was resolved before it
        return document
    error = None
    if outcome.committed and document.description:
        try:
            entry["published"] = list(_published(hook, name, document))
        except DeltaError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - the commit stands
            detail = redact(f"{type(failure).__name__}: {failure}")[:1_000]
            error = CatalogRequestError(catalog=entry["catalog"], name=str(name), detail=detail)
    warnings = outcome.warnings
    if error is not None:
        entry["error"] = error.to_json()
        warnings = (
            *warnings,
            f"publishing {name} in the catalog failed: {redact(str(error))}; the next task by the name does it",
        )
    return replace(document, outcome=replace(outcome, details={**outcome.details, DETAIL: entry}, warnings=warnings))


def _published(hook: DeltaHook, name: TableName, document: ResultDocument) -> tuple[str, ...]:
    from airflow_delta.catalogs.catalog import publish
    from airflow_delta.catalogs.entry import TableDescription, differences

    assert hook.catalog is not None  # noqa: S101 - or there would be no names
    table = TableDescription.from_json(document.description, document.schema_string)
    found = differences(hook.catalog.find(name), table)
    if found:
        publish(hook.catalog, name, table)
    return found


def with_drift(hook: DeltaHook, table: str, document: ResultDocument) -> ResultDocument:
    """The document of a health check, with a finding where the catalog says something else of the table than its log."""
    outcome = document.outcome
    if outcome is None or not document.description or (name := hook.table_name(table)) is None:
        return document
    from airflow_delta.catalogs.catalog import resolve
    from airflow_delta.catalogs.entry import TableDescription, differences

    assert hook.catalog is not None  # noqa: S101 - or there would be no names
    described = TableDescription.from_json(document.description, document.schema_string)
    found = differences(resolve(hook.catalog, name), described)
    if not found:
        return document
    finding = {
        "severity": "warning",
        "code": "CATALOG_DRIFT",
        "text": f"the catalog {hook.catalog_label} says of {name} something else than its log: {', '.join(found)}",
        "remedy": "commit to the table by its name: each commit publishes the whole table",
        "files": [],
    }
    findings = [*outcome.details.get("findings", ()), finding]
    findings.sort(key=lambda finding: ["error", "warning", "hint"].index(finding["severity"]))
    return replace(document, outcome=replace(outcome, details={**outcome.details, "findings": findings}))
