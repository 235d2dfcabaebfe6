"""What a task that has committed leaves in the catalog. Behind a commit nothing fails: an error becomes part of the result."""

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
"""Of a result's details: ``catalog`` and ``name``; ``published``, in what the entry differed from the table before (empty: in
nothing); and where it could not be published ``error``, as ``DeltaError.to_json`` has it."""

TABLE_ID = "table_id"
"""Of ``details["catalog"]`` after the dry run of a drop by a job: Delta's id of the table, as the catalog has it."""

_CREATED = "CREATE TABLE"

_Tables = TypeVar("_Tables")


class Names(Protocol):
    """The names that a task may give its tables: those of the catalog of its connection, or of a job's session."""

    @property
    def catalog(self) -> Catalog | None:
        """None for none."""

    @property
    def catalog_label(self) -> str:
        """What results call it."""

    def table_name(self, table: str) -> TableName | None:
        """The name that a text is; None for a path."""


def _never_failing(
    publish: Callable[[Names, _Tables, ResultDocument], ResultDocument],
) -> Callable[[Names, _Tables, ResultDocument], ResultDocument]:
    """The function, which leaves the document with a warning where that is not as this version writes it."""

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
    """The document of a task that names its table in a catalog, after the table was published there as it is now.

    Each commit publishes the whole table where the catalog says anything else, so that what an earlier task could not write is
    written by the next one. The handle of what was staged keeps the name, for the task that commits it. Never raises.

    Args:
        names: Those of the task.
        table: As the task names it; a path is published nowhere.
        document: Of what the task did.
    """
    outcome = document.outcome
    if outcome is None or outcome.dry_run:
        return document
    publications = _Publications(names, document)
    is_named = outcome.committed or outcome.operation == _CREATED  # a table that was there gets its name, too
    entry = publications.entry(table, outcome.table, is_committed=is_named)
    if entry is None:
        return document
    details = {**outcome.details, DETAIL: entry}
    if isinstance(handle := details.get(STAGED_KEY), Mapping):
        details[STAGED_KEY] = {**handle, "name": entry["name"]}
    return publications.with_details(details)


@_never_failing
def with_publications_of_statements(names: Names, sequence: SequenceStatement, document: ResultDocument) -> ResultDocument:
    """The document of several statements, after the table of each that names it was published; see ``with_publication``.

    Args:
        names: Those of the task.
        sequence: The statements as the task gives them, with names of tables.
        document: Of what the task did.
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
    """The document of a task that commits what others have staged, after each table that they named was published.

    Args:
        names: Those of the task, of the catalog in which the tasks that staged have named their tables.
        handles: Of what was staged.
        document: Of what the task did.
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
        relocates: Whether a name of another table becomes this one's.
        entries: What became of each name.
        warnings: Of those that could not be published.
    """

    names: Names
    document: ResultDocument
    relocates: bool = False
    entries: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def entry(self, table: str | None, uri: str, *, is_committed: bool) -> Mapping[str, Any] | None:
        """What the result says of the table's name, after it was published; None for a table that is named by its path.

        Args:
            table: As the task names it.
            uri: Of its root, as the result has it.
            is_committed: Whether there is anything to publish.
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
        """What the document says of a table; empty for nothing."""
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
    """The document of a task that was told to mend what the catalog says of its table, after it did, commit or none.

    The name becomes this table's also where it is missing, or of another place. A dry run only says in what they differ, as
    ``drift``. Never raises.

    Args:
        names: Those of the task.
        name: Under which the table is to be published.
        document: Of what the task did.
    """
    outcome = document.outcome
    if outcome is None:
        return document
    publications = _Publications(names, document, relocates=True)
    entry = publications.entry(name, outcome.table, is_committed=True)
    return document if entry is None else publications.with_details({**outcome.details, DETAIL: entry})


def with_drift(names: Names, name: str, document: ResultDocument) -> ResultDocument:
    """The document of a health check, with a finding where the catalog says something else of the table than its log.

    Never raises: what cannot be compared is a warning.

    Args:
        names: Those of the task.
        name: Under which the table is to be in the catalog; a path is in none.
        document: Of the check.
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
    if names.catalog_label == "spark":  # only a job can mend it, which does so behind its commit
        return "commit to the table by its name"
    if {"missing", "location", "table"} & set(found):
        return f"run DeltaMaintenanceOperator(table={table!r}, catalog_name={name!r}, mend_catalog=True)"
    return "commit to the table by its name, or run DeltaMaintenanceOperator with mend_catalog=True"
