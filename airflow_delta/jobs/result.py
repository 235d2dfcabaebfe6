"""What a job returns to its operator: the outcome or the error, as one JSON document that is written atomically."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import airflow_delta.catalogs.errors  # noqa: F401 - registers its errors, so that they keep their classes
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
"""Folder below a table or a scratch location. Its name begins with an underscore, so that no engine takes it for data."""

KEPT_FOR = 7 * 24 * 3_600_000
"""Milliseconds after which a document is deleted; it is only needed until the task has ended."""

StorageOptions = Mapping[str, Any] | None
"""Credentials and endpoint for the location of results, as fsspec takes them; None for the ambient ones."""

_logger = logging.getLogger(__name__)
_SWEPT = re.compile(rf"{RESULTS_FOLDER}/[0-9a-f]{{32}}/\d+\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultDocument:
    """The result of one job: either an outcome or an error.

    Attributes:
        outcome: The outcome; None after an error.
        error: The error in its JSON form (``DeltaError.to_json``); None after a success.
        traceback: The error's traceback, without secrets; empty if the error alone is enough.
        duration_ms: How long the statement took in milliseconds, without session and submit; None if nothing was done.
        history: The table's latest commits after the statement, newest first: ``version``, ``timestamp`` (milliseconds since
            the epoch), ``operation``, ``operationMetrics``, ``engineInfo``, ``job``, ``airflowDelta`` (the task run).
        table_facts: Size of the latest version: ``version``, ``files``, ``bytes``, ``small_files``; empty if unknown.
        table_detail: What else the table's page shows of that version; see ``jobs.table_detail``.
        description: The latest version as a catalog describes it (``catalogs.entry.TableDescription``); empty if unknown.
        schema_string: The schema of the latest version, as in its metadata; None if unknown.
        other_tables: Other tables that the statement has changed, by URI: ``description``, ``schema_string``.
        application_id: Id of the Spark application; None without one.
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
        """The document with these warnings in its outcome; without an outcome, the document is unchanged."""
        return self if self.outcome is None else replace(self, outcome=replace(self.outcome, warnings=tuple(warnings)))

    def typed_error(self) -> DeltaError | None:
        """The error as its own class, None without an error; an unknown error code becomes a ``JobFailedError``."""
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
        """The document that ``to_text`` wrote; members that only describe the table are left out if they are malformed.

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
            str(found.typed_error())  # a malformed error must fail here
        except (LookupError, TypeError, AttributeError, RecursionError) as failure:
            raise ValueError(f"not a result document: {type(failure).__name__}: {failure}") from failure
        return found


def known_facts(facts: Any) -> Mapping[str, int]:
    """Those facts of a table that are natural numbers."""
    found = facts if isinstance(facts, dict) else {}
    return {name: number for name, fact in found.items() if (number := natural_number(fact)) is not None}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _objects(value: Any) -> Mapping[str, Mapping[str, Any]]:
    found = value if isinstance(value, dict) else {}
    return {name: member for name, member in found.items() if isinstance(member, dict)}


def result_uri(base: str, token: str, attempt: int) -> str:
    """URI of the document of a task's try, below a table or a scratch location."""
    return f"{base.rstrip('/')}/{RESULTS_FOLDER}/{token}/{attempt}.json"


def _parts(uri: str) -> tuple[str, str]:
    """The base of a ``result_uri``, and the document's path below it, which must not lead through symbolic links.

    If the URI has another form, as in a spec written by hand, the base is its folder.
    """
    base, folder, path = uri.rpartition(f"/{RESULTS_FOLDER}/")
    if folder:
        return base or "/", f"{RESULTS_FOLDER}/{path}"
    base, _, name = uri.rpartition("/")
    return base or "/", name


def _store(base: str, storage_options: StorageOptions) -> LogStore:
    """The store of the base. Imported late: DAG files import this module, but need neither Arrow nor storages."""
    from airflow_delta.catalogs.managed_tables import vended_options, vended_with
    from airflow_delta.core.storage.resolve import log_store_for

    return log_store_for(base, vended_with(base, storage_options, vended_options(base)))


def write_result(
    uri: str, document: ResultDocument, storage_options: StorageOptions = None, *, clock: Clock = system_clock
) -> None:
    """Write the document atomically, and delete expired documents below the same base."""
    base, path = _parts(uri)
    store = _store(base, storage_options)
    store.write(path, document.to_text().encode())
    limit = clock() - KEPT_FOR
    swept = [
        file.path for file in store.list_all(RESULTS_FOLDER) if file.modification_time < limit and _SWEPT.fullmatch(file.path)
    ]
    store.delete(swept)


def read_result(uri: str, storage_options: StorageOptions = None) -> ResultDocument | None:
    """The document; None if it is missing or not readable as a document: then the log shows whether the job has committed."""
    base, path = _parts(uri)
    try:
        return ResultDocument.from_text(_store(base, storage_options).read(path))
    except FileNotFoundError:
        return None
    except ValueError as error:
        _logger.warning("ignoring the result document %s: %s", uri, printable(str(error)))
        return None


def written_results(base: str, token: str, storage_options: StorageOptions = None) -> set[int]:
    """Numbers of a task's tries that have left a document below the base."""
    files = _store(base, storage_options).list_from(f"{RESULTS_FOLDER}/{token}")
    names = (file.path.rsplit("/", 1)[-1] for file in files)
    tries = (natural_number(name.removesuffix(".json")) for name in names)
    return {number for number in tries if number is not None}


def newest_document(
    base: str, token: str, before: set[int], storage_options: StorageOptions = None, *, is_done: bool
) -> ResultDocument | None:
    """The document of this try's job: one that was not there before, else an earlier one with an outcome.

    A durable operator may have followed the job of an earlier try, whose document has that try's number. If this try's job is
    lost (not ``is_done``), an earlier outcome without a commit does not count: its work is done again.
    """
    there = written_results(base, token, storage_options)

    def read(tries: set[int]) -> list[ResultDocument]:
        found = (read_result(result_uri(base, token, attempt), storage_options) for attempt in sorted(tries, reverse=True))
        return [document for document in found if document is not None]

    earlier = (document for document in read(before) if document.outcome and (is_done or document.outcome.committed))
    return next(iter(read(there - before)), None) or next(earlier, None)


def print_outcome(document: ResultDocument, *, is_by_hand: bool = False) -> int:
    """Print a job's error, and when run by hand also its traceback or its result; return the job's exit code.

    Programs that submit jobs find both at ``result_uri``, and an operator logs the traceback from there: a driver's output is
    mixed with Spark's, may be cut off, and on a cluster is out of reach.
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
