"""Job to operator: the outcome or the error, as one JSON document that is written atomically."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import airflow_delta.catalogs.errors  # noqa: F401 - makes its errors known, so that they come back as themselves
from airflow_delta.core.clock import Clock, system_clock
from airflow_delta.core.errors import (
    AccessDeniedError,
    CommitConflictError,
    DeltaError,
    InvalidStatementError,
    StorageAccessError,
)
from airflow_delta.core.foreign_values import json_value, natural_number, printable, printable_lines
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.errors import InvalidSpecError, JobFailedError
from airflow_delta.spark.errors import FunctionFailedError

if TYPE_CHECKING:
    from airflow_delta.core.storage.log_store import LogStore

RESULT_FORMAT = 1

RESULTS_FOLDER = "_airflow_delta/results"
"""Below a table or a scratch place. The name starts with an underscore: no engine takes it for data."""

KEPT_FOR = 7 * 24 * 3_600_000
"""Milliseconds after which a document is swept. It is needed while a task's tries go on."""

StorageOptions = Mapping[str, Any] | None
"""Credentials and endpoint of the place of results, as fsspec takes them; None for the ambient ones."""

_logger = logging.getLogger(__name__)
_SWEPT = re.compile(rf"{RESULTS_FOLDER}/[0-9a-f]{{32}}/\d+\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultDocument:
    """The result of one job: either an outcome or an error.

    Attributes:
        error: The error in its JSON form (``DeltaError.to_json``).
        traceback: Where the error arose, without secrets; empty when the error says it all.
        duration_ms: How long the statement took, without session and submit; None where nothing was done.
        history: The table's last commits, newest first, as seen after the work: ``version``, ``timestamp`` (milliseconds since
            the epoch), ``operation``, ``operationMetrics``, ``engineInfo``, ``job``, ``airflowDelta`` (the task run).
        table_facts: Of the latest version: ``version``, ``files``, ``bytes``, ``small_files``; empty where it is not known.
        table_detail: What the table's page shows of that version beside, as of ``jobs.table_detail``.
        description: The latest version as a catalog takes it, of ``catalogs.entry.TableDescription``; empty where not known.
        schema_string: The latest version's schema as its metadata has it; None where it is not known.
        other_tables: By their URIs other tables that the statement has changed: ``description``, ``schema_string``.
        application_id: Spark's id of the application; None where there was none.
    """

    outcome: OperationResult | None = None
    error: dict[str, Any] | None = None
    traceback: str = ""
    duration_ms: int | None = None
    history: tuple[Mapping[str, Any], ...] = ()
    table_facts: Mapping[str, int] = field(default_factory=dict)
    table_detail: Mapping[str, Any] = field(default_factory=dict)
    description: Mapping[str, Any] = field(default_factory=dict)
    schema_string: str | None = None
    other_tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    application_id: str | None = None

    @classmethod
    def of_error(cls, error: DeltaError, traceback: str = "") -> ResultDocument:
        """The document of a failed job."""
        return cls(error=error.to_json(), traceback=traceback)

    def with_warnings(self, warnings: Iterable[str]) -> ResultDocument:
        """The document whose outcome has these warnings; without an outcome, the document as it is."""
        return self if self.outcome is None else replace(self, outcome=replace(self.outcome, warnings=tuple(warnings)))

    def typed_error(self) -> DeltaError | None:
        """The error as its own class, or None when there is none; a code of another version becomes a ``JobFailedError``."""
        if self.error is None:
            return None
        return DeltaError.from_json(self.error) or JobFailedError(
            table=str(self.error["attributes"].get("table")),
            operation="job",
            error=self.error["code"],
            detail=self.error["text"],
        )

    @property
    def exit_code(self) -> int:
        """0, or the code of ``sysexits.h``: 64 invalid spec, 65 data error, 70 internal error, 75 try again, 77 no access."""
        match self.typed_error():
            case None:
                return 0
            case InvalidSpecError() | InvalidStatementError():
                return 64
            case AccessDeniedError() | StorageAccessError() as error if not error.retryable:
                return 77
            case JobFailedError():
                return 70
            case CommitConflictError():
                return 75
            case error:
                return 75 if error.retryable else 65

    def to_text(self) -> str:
        """The document as JSON text."""
        document = {
            "format": RESULT_FORMAT,
            "outcome": None if self.outcome is None else self.outcome.to_json(),
            "error": self.error,
            "traceback": self.traceback,
            "duration_ms": self.duration_ms,
            "history": list(self.history),
            "table_facts": dict(self.table_facts),
            "table_detail": dict(self.table_detail),
            "description": dict(self.description),
            "schema_string": self.schema_string,
            "other_tables": dict(self.other_tables),
            "application_id": self.application_id,
        }
        return json.dumps(json_value(document), indent=1)

    @classmethod
    def from_text(cls, text: str | bytes) -> ResultDocument:
        """The document that ``to_text`` wrote; what only describes the table is left out where it is not of its kind.

        Raises:
            ValueError: The text is not such a document.
        """
        try:
            document = json.loads(text)
            outcome = document["outcome"]
            found = cls(
                outcome=None if outcome is None else OperationResult.from_json(outcome),
                error=document["error"],
                traceback=str(document["traceback"]),
                duration_ms=natural_number(document.get("duration_ms")),
                history=tuple(entry for entry in document.get("history", ()) if isinstance(entry, dict)),
                table_facts=known_facts(document.get("table_facts")),
                table_detail=found if isinstance(found := document.get("table_detail"), dict) else {},
                description=found if isinstance(found := document.get("description"), dict) else {},
                schema_string=_text(document.get("schema_string")),
                other_tables=_objects(document.get("other_tables")),
                application_id=_text(document.get("application_id")),
            )
            str(found.typed_error())  # fails here if ever
        except (LookupError, TypeError, AttributeError, RecursionError) as failure:
            raise ValueError(f"not a result document: {type(failure).__name__}: {failure}") from failure
        return found


def known_facts(facts: Any) -> Mapping[str, int]:
    """The facts of a table that are counts."""
    found = facts if isinstance(facts, dict) else {}
    return {name: number for name, fact in found.items() if (number := natural_number(fact)) is not None}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _objects(value: Any) -> Mapping[str, Mapping[str, Any]]:
    found = value if isinstance(value, dict) else {}
    return {name: member for name, member in found.items() if isinstance(member, dict)}


def result_uri(base: str, token: str, attempt: int) -> str:
    """Where the document of a task's try goes, below a table or a scratch place."""
    return f"{base.rstrip('/')}/{RESULTS_FOLDER}/{token}/{attempt}.json"


def _parts(uri: str) -> tuple[str, str]:
    """The base of a ``result_uri``, and the document's path below it: what lies between may be a link, and must not be one.

    Of a URI of another form, as specs written by hand may have, the base is its folder.
    """
    base, folder, path = uri.rpartition(f"/{RESULTS_FOLDER}/")
    if folder:
        return base or "/", f"{RESULTS_FOLDER}/{path}"
    base, _, name = uri.rpartition("/")
    return base or "/", name


def _store(base: str, storage_options: StorageOptions) -> LogStore:
    """Loaded when it is needed: a DAG file knows of documents, and has no use for Arrow and storages."""
    from airflow_delta.catalogs.managed_tables import vended_options, vended_with
    from airflow_delta.core.storage.resolve import log_store_for

    return log_store_for(base, vended_with(base, storage_options, vended_options(base)))


def write_result(
    uri: str, document: ResultDocument, storage_options: StorageOptions = None, *, clock: Clock = system_clock
) -> None:
    """Write the document in one step, and sweep the old ones beside it."""
    base, path = _parts(uri)
    store = _store(base, storage_options)
    store.write(path, document.to_text().encode())
    limit = clock() - KEPT_FOR
    swept = [
        file.path for file in store.list_all(RESULTS_FOLDER) if file.modification_time < limit and _SWEPT.fullmatch(file.path)
    ]
    store.delete(swept)


def read_result(uri: str, storage_options: StorageOptions = None) -> ResultDocument | None:
    """The document; None when there is none that can be read: the log knows whether the job has committed."""
    base, path = _parts(uri)
    try:
        return ResultDocument.from_text(_store(base, storage_options).read(path))
    except FileNotFoundError:
        return None
    except ValueError as error:
        _logger.warning("ignoring the result document %s: %s", uri, printable(str(error)))
        return None


def written_results(base: str, token: str, storage_options: StorageOptions = None) -> set[int]:
    """The tries of a task that left a document below the base."""
    files = _store(base, storage_options).list_from(f"{RESULTS_FOLDER}/{token}")
    names = (file.path.rsplit("/", 1)[-1] for file in files)
    tries = (natural_number(name.removesuffix(".json")) for name in names)
    return {number for number in tries if number is not None}


def newest_document(
    base: str, token: str, before: set[int], storage_options: StorageOptions = None, *, is_done: bool
) -> ResultDocument | None:
    """The document of this try's job: one that was not there before, else an outcome that was.

    A durable operator may have followed the job of an earlier try, whose document bears that try's number. When the job of
    this try is lost (not ``is_done``), an earlier outcome without a commit does not stand for it: such work runs again.
    """
    there = written_results(base, token, storage_options)

    def read(tries: set[int]) -> list[ResultDocument]:
        found = (read_result(result_uri(base, token, attempt), storage_options) for attempt in sorted(tries, reverse=True))
        return [document for document in found if document is not None]

    earlier = (document for document in read(before) if document.outcome and (is_done or document.outcome.committed))
    return next(iter(read(there - before)), None) or next(earlier, None)


def print_outcome(document: ResultDocument, *, is_by_hand: bool = False) -> int:
    """Print a job's error, by hand its traceback or its result too, and return the exit code that says the same.

    Who submits by program finds both at ``result_uri``, and an operator logs the traceback from there: a driver's output is
    mixed with Spark's, cut, and on a cluster out of reach.
    """
    match document.typed_error():
        case None if is_by_hand:
            sys.stdout.write(f"{document.to_text()}\n")
        case None:
            pass
        case (JobFailedError() | FunctionFailedError()) as failure if is_by_hand:
            sys.stderr.write(f"{printable_lines(document.traceback)}{failure}\n")
        case refusal:
            sys.stderr.write(f"{refusal}\n")
    return document.exit_code
