"""Publishing tables in a catalog after a commit. Errors become part of the result, as nothing may fail after a commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from airflow_delta.catalogs.errors import CatalogRequestError
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.statements import SequenceStatement
from airflow_delta.core.statements.json_form import map_texts
from airflow_delta.core.statements.publish import PUBLISHED_KEY, STAGED_KEY, StagedHandle
from airflow_delta.core.statements.sequence import STATEMENTS_KEY
from airflow_delta.jobs.best_effort import BestEffort
from airflow_delta.jobs.redaction import redact
from airflow_delta.jobs.result import ResultDocument

if TYPE_CHECKING:
    from airflow_delta.catalogs.catalog import Catalog

DETAIL = "catalog"
"""Key in a result's details for what was published in a catalog.

The value has ``catalog`` and ``name``; after a commit also ``published``, a list of what differed between entry and table
before, or ``error``, as ``DeltaError.to_json`` writes it, if publishing failed.
"""

TABLE_ID = "table_id"
"""Key in ``details["catalog"]`` after a job's dry run of a drop: the id of the Delta table, as the catalog has it."""

_CREATED = "CREATE TABLE"

_Tables = TypeVar("_Tables")


class Names(Protocol):
    """The names that a task may use for tables: in the catalog of its connection, or of the job's Spark session."""

    @property
    def catalog(self) -> Catalog | None:
        """The catalog; None without one."""

    @property
    def catalog_label(self) -> str:
        """The label of the catalog in results."""

    def table_name(self, table: str) -> TableName | None:
        """The text as a name in the catalog; None for a path."""


def _never_failing(
    publish: Callable[[Names, _Tables, ResultDocument], ResultDocument],
) -> Callable[[Names, _Tables, ResultDocument], ResultDocument]:
    """Wrap the function: if it raises, such as for a document of another version, the document only gets a warning."""

    @wraps(publish)
    def guarded(names: Names, tables: _Tables, document: ResultDocument) -> ResultDocument:
        try:
            return publish(names, tables, document)
        except Exception as failure:  # noqa: BLE001 - the commit stands
            detail = redact(f"{type(failure).__name__}: {failure}")[:1_000]
            warning = f"publishing in the catalog failed: {detail}; the next task that commits by the name tries again"
            return document.with_warnings([*(document.outcome.warnings if document.outcome else ()), warning])

    return guarded


@_never_failing
def with_publication(names: Names, table: str, document: ResultDocument) -> ResultDocument:
    """Publish the current state of a task's table in the catalog, if the task gives the table by name; return the document.

    Each commit publishes the whole description of the table if the catalog's entry differs, so that a task also publishes what
    an earlier one could not. The handle of a staged commit keeps the name, for the task that publishes it. Never raises.

    Args:
        names: The names that the task may use.
        table: The table as the task gives it; a path is not published.
        document: The outcome of the task.
    """
    outcome = document.outcome
    if outcome is None or outcome.dry_run:
        return document
    publications = _Publications(names, document)
    is_named = outcome.committed or outcome.operation == _CREATED  # also names a table that existed
    entry = publications.entry(table, outcome.table, is_committed=is_named)
    if entry is None:
        return document
    details = {**outcome.details, DETAIL: entry}
    if isinstance(handle := details.get(STAGED_KEY), Mapping):
        details[STAGED_KEY] = {**handle, "name": entry["name"]}
    return publications.with_details(details)


@_never_failing
def with_publications_of_statements(names: Names, sequence: SequenceStatement, document: ResultDocument) -> ResultDocument:
    """Publish the table of each statement that gives it by name; see ``with_publication``.

    Args:
        names: The names that the task may use.
        sequence: The statements as the task gives them, with the names of tables.
        document: The outcome of the task.
    """
    outcome = document.outcome
    if outcome is None or STATEMENTS_KEY not in outcome.details:
        return document
    publications, results = _Publications(names, document), dict(outcome.details[STATEMENTS_KEY])
    changed = {result["table"] for result in results.values() if result["committed"] and not result["dry_run"]}
    for name, statement in zip(sequence.names, sequence.statements, strict=True):
        result = results[name]
        entry = publications.entry(statement.table, result["table"], is_committed=result["table"] in changed)
        if entry is not None and not result["dry_run"]:
            results[name] = {**result, "details": {**result["details"], DETAIL: entry}}
    return publications.with_details({**outcome.details, STATEMENTS_KEY: results})


@_never_failing
def with_publications_of_handles(names: Names, handles: Sequence[StagedHandle], document: ResultDocument) -> ResultDocument:
    """Publish the tables whose staged commits a task has made, if they were staged by name; see ``with_publication``.

    Args:
        names: The names that the task may use, in the same catalog as the tasks that staged the commits.
        handles: Handles of the staged commits.
        document: The outcome of the task.
    """
    outcome = document.outcome
    if outcome is None or PUBLISHED_KEY not in outcome.details:
        return document
    publications, results = _Publications(names, document), []
    for handle, result in zip(handles, outcome.details[PUBLISHED_KEY], strict=True):
        entry = publications.entry(handle.name, result["table"], is_committed=result["published"])
        results.append(result if entry is None else {**result, DETAIL: entry})
    return publications.with_details({**outcome.details, PUBLISHED_KEY: results})


@dataclass(frozen=True, slots=True)
class _Publications:
    """The tables of one document, each published once.

    Attributes:
        names: The names that the task may use.
        document: The outcome of the task.
        relocates: Whether a name that belongs to another table is given to this one.
        entries: The outcome of publishing, by name.
        warnings: A text for each table that could not be published.
    """

    names: Names
    document: ResultDocument
    relocates: bool = False
    entries: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def entry(self, table: str | None, uri: str, *, is_committed: bool) -> Mapping[str, Any] | None:
        """Publish a table by its name, and return what the result says of it; None for a table that is given by its path.

        Args:
            table: The table as the task gives it.
            uri: URI of the table's root, from the result.
            is_committed: Whether there is a commit to publish.
        """
        try:
            name = self.names.table_name(table) if isinstance(table, str) else None
            if name is None:
                return None
            entry: dict[str, Any] = {"catalog": self.names.catalog_label, "name": str(name)}
        except Exception:  # noqa: BLE001 - the commit stands; the name was resolved before it
            return None
        if not is_committed or not self._described(uri):
            return entry
        if str(name) not in self.entries:
            self.entries[str(name)] = self._publish(name, uri, entry)
        return self.entries[str(name)]

    def with_details(self, details: Mapping[str, Any]) -> ResultDocument:
        """The document, with these details and the warnings."""
        outcome = self.document.outcome
        assert outcome is not None  # noqa: S101 - only tables of an outcome are published
        warnings = (*outcome.warnings, *self.warnings)
        return replace(self.document, outcome=replace(outcome, details=details, warnings=warnings))

    def _described(self, uri: str) -> Mapping[str, Any]:
        """The document's description of a table; empty if it has no description."""
        document = self.document
        if document.outcome is not None and uri == document.outcome.table and document.description:
            return {"description": document.description, "schema_string": document.schema_string}
        found = document.other_tables.get(uri, {})
        return found if isinstance(found.get("description"), dict) else {}

    def _publish(self, name: TableName, uri: str, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        is_dry = self.document.outcome is not None and self.document.outcome.dry_run
        try:
            return {**entry, "drift" if is_dry else "published": list(self._published(name, uri, is_dry=is_dry))}
        except DeltaError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - the commit stands
            detail = redact(f"{type(failure).__name__}: {failure}")[:1_000]
            error = CatalogRequestError(catalog=entry["catalog"], name=str(name), detail=detail)
        text = redact(str(error)).rstrip(".")
        self.warnings.append(
            f"publishing {name} in the catalog failed: {text}; the next task that commits by the name tries again"
        )
        return {**entry, "error": map_texts(error.to_json(), redact)}

    def _published(self, name: TableName, uri: str, *, is_dry: bool) -> tuple[str, ...]:
        from airflow_delta.catalogs.catalog import drift, publish_changes
        from airflow_delta.catalogs.entry import TableDescription

        assert self.names.catalog is not None  # noqa: S101 - or there would be no names
        found = self._described(uri)
        table = TableDescription.from_json(found["description"], found.get("schema_string"))
        if is_dry:
            return drift(self.names.catalog, name, table)
        return publish_changes(self.names.catalog, name, table, relocate=self.relocates)


def with_mended_entry(names: Names, name: str, document: ResultDocument) -> ResultDocument:
    """Make the catalog's entry agree with the task's table, whether or not the task has committed.

    A missing name is created, and a name with another location is given to this table. A dry run only reports the differences,
    as ``drift``. Never raises.

    Args:
        names: The names that the task may use.
        name: The name under which the table is published.
        document: The outcome of the task.
    """
    outcome = document.outcome
    if outcome is None:
        return document
    publications = _Publications(names, document, relocates=True)
    entry = publications.entry(name, outcome.table, is_committed=True)
    return document if entry is None else publications.with_details({**outcome.details, DETAIL: entry})


def with_drift(names: Names, name: str, document: ResultDocument) -> ResultDocument:
    """Add a finding to a health check's document if the catalog's entry differs from the table's log.

    Never raises: a failed comparison becomes a warning.

    Args:
        names: The names that the task may use.
        name: The table's name in the catalog; a path is not compared.
        document: The outcome of the check.
    """
    compared = BestEffort(document.outcome.warnings if document.outcome else ())
    with compared.attempt("comparing the catalog with the table"):
        document = _with_finding(names, name, document)
    return document.with_warnings(compared.warnings)


def _with_finding(names: Names, name: str, document: ResultDocument) -> ResultDocument:
    outcome = document.outcome
    if outcome is None or not document.description or (table_name := names.table_name(name)) is None:
        return document
    from airflow_delta.catalogs.catalog import drift
    from airflow_delta.catalogs.entry import TableDescription

    assert names.catalog is not None  # noqa: S101 - or there would be no names
    described = TableDescription.from_json(document.description, document.schema_string)
    found = drift(names.catalog, table_name, described)
    if not found:
        return document
    finding = {
        "severity": "warning",
        "code": "CATALOG_DRIFT",
        "text": f"the catalog {names.catalog_label} says of {table_name} something else than its log: {', '.join(found)}",
        "remedy": _remedy(names, str(table_name), outcome.table, found),
        "files": [],
    }
    findings = [*outcome.details.get("findings", ()), finding]
    findings.sort(key=lambda finding: ["error", "warning", "hint"].index(finding["severity"]))
    return replace(document, outcome=replace(outcome, details={**outcome.details, "findings": findings}))


def _remedy(names: Names, name: str, table: str, found: Collection[str]) -> str:
    if names.catalog_label == "spark":  # only a job can mend it, and does so after its commit
        return "commit to the table by its name"
    if {"missing", "location", "table"} & set(found):
        return f"run DeltaMaintenanceOperator(table={table!r}, catalog_name={name!r}, mend_catalog=True)"
    return "commit to the table by its name, or run DeltaMaintenanceOperator with mend_catalog=True"
