"""What an operator passes to a job: one statement and the task that requests it, as JSON.

In a spec written by hand, only the statement is needed::

    {"statement": {"$type": "merge", "table": "/lake/flights", "on": "target.id = source.id",
                   "source": {"$type": "table", "table": "/lake/feed", "version": 3}}}

``airflow_delta.core.statements.json_form.TYPES`` lists the names of types; the fields are those of the statements' classes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_delta.catalogs.table_name import is_path
from airflow_delta.core.actions.commit_info import Origin
from airflow_delta.core.statements import Statement
from airflow_delta.core.statements.json_form import map_tables, statement_from_json, to_json
from airflow_delta.core.storage.ambient_options import parsed_prefixes
from airflow_delta.core.storage.table_uri import absolute
from airflow_delta.jobs.errors import InvalidSpecError
from airflow_delta.jobs.result import result_uri
from airflow_delta.jobs.task_run import TaskRun

if TYPE_CHECKING:
    from airflow_delta.catalogs.managed_tables import ManagedTable

SPEC_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The input of a job.

    Attributes:
        statement: The statement.
        origin: The task that requests it; its idempotency token marks the commit.
        start_version: The table's version when the token was generated (-1 for no table); commits after it are searched for the
            token before anything is done. None if the worker that generated the token could not read the table.
        result_uri: URI of the result document; None to only print it.
        allowed_prefixes: URIs of locations outside of a table's root from which it may read files, from the connection.
        managed_tables: The statement's tables whose commits a catalog ratifies; the driver's environment names the catalog.
        earliest_commit_time: Milliseconds since the epoch, before which the task has made no commit; used for tables without a
            start version. ``not_before`` in the JSON.
        has_session_names: Whether tables may be given by their names in the catalog of the job's session.
        described_tables: URIs of further tables that the result is to describe, because they have names in a catalog.
    """

    statement: Statement
    origin: Origin = field(default_factory=Origin)
    start_version: int | None = None
    result_uri: str | None = None
    earliest_commit_time: int | None = None
    allowed_prefixes: tuple[str, ...] = ()
    described_tables: tuple[str, ...] = ()
    managed_tables: tuple[ManagedTable, ...] = ()
    has_session_names: bool = False

    def to_text(self) -> str:
        """The spec as JSON text."""
        document = {
            "format": SPEC_FORMAT,
            "statement": to_json(self.statement),
            "digest": statement_digest(self.statement),
            "origin": {
                "token": self.origin.token,
                "job": dict(self.origin.job),
                "record": dict(self.origin.record),
                "user_metadata": self.origin.user_metadata,
            },
            "start_version": self.start_version,
            "result_uri": self.result_uri,
            "not_before": self.earliest_commit_time,
        }
        if self.allowed_prefixes:
            document["allowed_prefixes"] = list(self.allowed_prefixes)
        if self.has_session_names:
            document["has_session_names"] = True
        if self.described_tables:
            document["described_tables"] = list(self.described_tables)
        if self.managed_tables:
            document["managed_tables"] = [table.to_json() for table in self.managed_tables]
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> JobSpec:
        """Parse a spec from ``to_text``, written by hand, or from the template of a ``DeltaJob`` (``run``, ``scratch_uri``).

        Raises:
            InvalidSpecError: The text is not JSON, has an unknown format or field, or its digest does not match the statement.
            InvalidStatementError: The spec's statement is invalid.
            RelativePathError: The statement gives a table by a relative path, or ``result_uri`` is relative.
        """
        document = _object(text)
        digest = document.pop("digest", None)
        spec_format = document.pop("format", SPEC_FORMAT)
        if spec_format != SPEC_FORMAT:
            raise InvalidSpecError(detail=f"expected format {SPEC_FORMAT}, found {spec_format!r}")
        if "statement" not in document:
            raise InvalidSpecError(detail="the member statement is missing")
        statement = statement_from_json(document.pop("statement"))
        has_names = document.get("has_session_names") is True
        map_tables(statement, lambda table: table if has_names and not is_path(table) else _absolute(table))
        if digest is not None and digest != statement_digest(statement):
            raise InvalidSpecError(detail="the digest does not match the statement; it was changed after the operator wrote it")
        if "run" in document:
            run, base = TaskRun.from_json(document["run"]), str(document.get("scratch_uri"))
            return cls(
                statement=statement,
                origin=run.origin(statement_digest(statement)),
                result_uri=result_uri(base, run.key, run.try_number),
                earliest_commit_time=run.run_after,
            )
        document["allowed_prefixes"] = parsed_prefixes(document.get("allowed_prefixes", []), "allowed_prefixes")
        document["described_tables"] = _tables(document.get("described_tables", []))
        if (managed_tables := document.pop("managed_tables", [])) != []:
            document["managed_tables"] = _managed_tables(managed_tables)
        try:
            spec = cls(
                statement=statement,
                origin=Origin(**document.pop("origin", {})),
                earliest_commit_time=document.pop("not_before", None),
                **document,
            )
        except TypeError as error:
            raise InvalidSpecError(detail=str(error)) from error
        if type(spec.has_session_names) is not bool:
            raise InvalidSpecError(detail="has_session_names must be true or false")
        numbers = (spec.start_version, spec.earliest_commit_time)
        if not all(type(number) in (int, type(None)) for number in numbers) or not isinstance(spec.result_uri, str | None):
            detail = "start_version and not_before must be integers, and result_uri a string, where they are given"
            raise InvalidSpecError(detail=detail)
        if spec.result_uri is not None and not _absolute(spec.result_uri).rpartition("/")[2].strip():
            raise InvalidSpecError(detail=f"result_uri must be the URI of a file, found {spec.result_uri!r}")
        return spec


def _managed_tables(documents: Any) -> tuple[ManagedTable, ...]:
    from airflow_delta.catalogs.managed_tables import ManagedTable

    try:
        return tuple(map(ManagedTable.from_json, documents if isinstance(documents, list) else [documents]))
    except ValueError as error:
        raise InvalidSpecError(detail=f"managed_tables: {error}") from error


def statement_digest(statement: Statement) -> str:
    """A hash of the statement: equal only for equal statements, and the same in all versions of the package."""
    text = json.dumps(to_json(statement, with_defaults=False), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _tables(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(table, str) for table in value):
        raise InvalidSpecError(detail="described_tables must be a list of URIs")
    return tuple(map(_absolute, value))


def _absolute(table: str) -> str:
    return absolute(table, "a job cannot resolve relative paths")


def _object(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSpecError(detail=f"expected JSON: {error}") from error
    if not isinstance(document, dict):
        raise InvalidSpecError(detail=f"expected a JSON object, found {type(document).__name__}")
    return document
