"""The commits of a managed table of Unity Catalog, through its REST API.

The published definition: ``DeltaCommitsApi`` in the ``api`` folder of unitycatalog, with ``GET`` and ``POST`` of
``/delta/preview/commits`` (``DeltaGetCommits``, ``DeltaGetCommitsResponse``, ``DeltaCommit``, ``DeltaCommitInfo``,
``DeltaMetadata``), which unitycatalog calls experimental. As in Delta-Spark, a commit sends changed properties and comment to
the catalog, but not the columns.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, NoReturn
from urllib.parse import urlsplit

from airflow_delta.catalogs.bearer_token import authorization, is_safe_server
from airflow_delta.catalogs.bounded_call import within
from airflow_delta.core.actions import Metadata
from airflow_delta.core.errors import (
    CatalogAnswerError,
    CommitRefusedError,
    InvalidStatementError,
    StorageAccessError,
    StorageUnavailableError,
    TableNotFoundError,
)
from airflow_delta.core.foreign_values import natural_number, printable
from airflow_delta.core.log.managed_commits import (
    Maintenance,
    ProposedCommit,
    RatifiedCommit,
    RatifiedCommits,
    TooManyUnpublishedError,
)

TABLE_ID = "io.unitycatalog.tableId"
"""The property of a managed table that holds the catalog's id of the table."""

_COMMITS = "/api/2.1/unity-catalog/delta/preview/commits"
_TAKEN = {"COMMIT_VERSION_CONFLICT", "ALREADY_EXISTS"}
_MOST_BYTES = 16 << 20
_MOST_COMMITS = 1_000  # catalogs refuse further commits after some tens of unpublished ones
_LONGEST_TEXT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class UnityCommits:
    """``ManagedCommits`` of one table of Unity Catalog.

    Attributes:
        uri: URL of the server, ``https://host``; with a token, ``http`` is only accepted for this machine.
        table_id: The catalog's id of the table.
        table_uri: URI of the table's root, as the catalog has registered it.
        token: Returns the bearer token for each request, so that an expired one can be replaced; None for a server without
            authentication.
        permits: The maintenance that the catalog's operator leaves to this client, which the API does not report.
        timeout: Most seconds for a complete answer.

    Raises:
        InvalidStatementError: The server's URL is invalid, or the id is blank.
    """

    uri: str
    table_id: str
    table_uri: str
    token: Callable[[], str] | None = field(default=None, repr=False)
    permits: frozenset[Maintenance] = frozenset()
    timeout: float = 60.0

    def __post_init__(self) -> None:
        if not is_safe_server(self.uri, has_token=self.token is not None):  # not shown: it may hold a secret
            detail = "expected the server as https://host; http for this machine alone"
            raise InvalidStatementError(statement="the commits of Unity Catalog", detail=detail)
        if not self.table_id.strip():
            raise InvalidStatementError(statement="the commits of Unity Catalog", detail="the id of the table is blank")

    @property
    def catalog(self) -> str:
        """The catalog's name for errors: the server's host, without anything that could be a secret."""
        return f"Unity Catalog at {urlsplit(self.uri).hostname}"

    def ratified(self) -> RatifiedCommits:
        """The commits that are not known to be published, and the latest version."""
        commits: dict[int, RatifiedCommit] = {}
        latest: int | None = None
        start = 0
        while True:
            answer = self._send("GET", {**self._table, "start_version": start})
            page, latest = list(self._commits(answer)), self._latest(answer)
            commits |= {commit.version: commit for commit in page}
            newest = max((commit.version for commit in page), default=None)
            if newest is None or latest is None or newest >= latest:
                break
            if newest < start or len(commits) > _MOST_COMMITS:
                self._refuse(f"expected at most {_MOST_COMMITS} commits in ascending pages, found {newest} from {start} on")
            start = newest + 1  # the server limits the commits per answer
        try:
            return RatifiedCommits(commits=tuple(commits[version] for version in sorted(commits)), latest=latest)
        except ValueError as error:
            self._refuse(str(error))

    def ratify(self, commit: ProposedCommit) -> None:
        """Have the catalog accept the staged commit as its version."""
        info = {
            "version": commit.version,
            "timestamp": commit.timestamp,
            "file_name": commit.file_name,
            "file_size": commit.size,
            "file_modification_timestamp": commit.modification_time,
        }
        metadata = {} if commit.metadata is None else {"metadata": self._described(commit.metadata)}
        self._send("POST", {**self._table, "commit_info": info, **metadata})

    def published(self, version: int) -> None:
        """Report that the commits up to a version are published, so that the catalog can forget them."""
        self._send("POST", {**self._table, "latest_backfilled_version": version})

    @property
    def identity(self) -> Mapping[str, str]:
        """The property that the table's metadata must have."""
        return {TABLE_ID: self.table_id}

    @property
    def _table(self) -> Mapping[str, Any]:
        return {"table_id": self.table_id, "table_uri": self.table_uri}

    def _described(self, metadata: Metadata) -> Mapping[str, Any]:
        """The changed metadata for the catalog, which replaces all properties by these."""
        comment = {"description": metadata.description} if metadata.description is not None else {}
        return {**comment, "properties": {"properties": {**metadata.configuration, TABLE_ID: self.table_id}}}

    def _commits(self, answer: Mapping[str, Any]) -> Iterator[RatifiedCommit]:
        infos = answer.get("commits") or []
        if not isinstance(infos, list):
            self._refuse("commits is not a list")
        for info in infos:
            document = info if isinstance(info, Mapping) else {}
            numbers = [natural_number(document.get(key)) for key in ("version", "file_size", "file_modification_timestamp")]
            version, size, time = numbers
            if version is None or size is None or time is None:
                self._refuse("a commit has no version, file_size or file_modification_timestamp")
            try:
                name = str(document.get("file_name"))
                yield RatifiedCommit(version=version, file_name=name, size=size, modification_time=time)
            except ValueError as error:
                self._refuse(str(error))

    def _latest(self, answer: Mapping[str, Any]) -> int | None:
        """The latest version; None if no commit was ratified, for which releases of the server answer -1, 0 or nothing."""
        latest = answer.get("latest_table_version")
        if latest is None or latest == -1:
            return None
        number = natural_number(latest)
        if number is None:
            self._refuse(f"expected a version as latest_table_version, found {latest!r:.40}")
        return number or None

    def _refuse(self, detail: str) -> NoReturn:
        raise CatalogAnswerError(table=self.table_uri, catalog=self.catalog, detail=_shown(detail))

    def _send(self, method: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to a request.

        Raises:
            As ``ManagedCommits`` says.
        """
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.token is not None:
            try:
                headers["Authorization"] = authorization(self.token())
            except ValueError as error:
                raise StorageAccessError(uri=self.table_uri, detail=f"{self.catalog}: {error}") from None
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            self.uri.rstrip("/") + _COMMITS, json.dumps(document).encode(), headers, method=method
        )
        try:
            status, data = within(self.timeout, lambda: _exchange(request, self.timeout))
        except (OSError, HTTPException) as error:  # without the error's text, which may repeat headers
            self._unavailable(type(error).__name__)
        if status is not None:
            self._raise(status, _document(data))
        answer = _document(data) if len(data) <= _MOST_BYTES else None
        if answer is None:
            detail = f"its answer is not a JSON object of at most {_MOST_BYTES} bytes"
            if method == "POST":  # the request may have succeeded
                self._unavailable(detail)
            self._refuse(detail)
        return answer

    def _raise(self, status: int, document: Mapping[str, Any] | None) -> NoReturn:
        """Raise the error for a status; one that a proxy may have sent leaves the outcome unknown."""
        code = str((document or {}).get("error_code", ""))
        detail = _shown(f"{code or status}: {(document or {}).get('message', '')}")
        if status == HTTPStatus.CONFLICT and code in _TAKEN:
            raise FileExistsError(detail)
        if status == HTTPStatus.TOO_MANY_REQUESTS and code == "RESOURCE_EXHAUSTED":
            raise TooManyUnpublishedError(detail)
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise StorageAccessError(uri=self.table_uri, detail=f"{self.catalog}: {detail}")
        if status == HTTPStatus.NOT_FOUND and code:
            raise TableNotFoundError(table=self.table_uri)
        if status == HTTPStatus.BAD_REQUEST and code:
            raise CommitRefusedError(table=self.table_uri, catalog=self.catalog, detail=detail)
        self._unavailable(detail)

    def _unavailable(self, detail: str) -> NoReturn:
        raise StorageUnavailableError(uri=self.table_uri, detail=f"{self.catalog}: {detail}") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects, so that the token is only sent to the configured server."""

    def redirect_request(self, *_arguments: Any) -> None:
        """Follow no redirect; it becomes an ``HTTPError``."""


_OPENER = urllib.request.build_opener(_NoRedirect)


def _exchange(request: urllib.request.Request, timeout: float) -> tuple[int | None, bytes]:
    """The status of an error (None on success), and the body."""
    try:
        with _OPENER.open(request, timeout=timeout) as response:
            return None, response.read(_MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error, suppress(OSError, HTTPException):
            return error.code, error.read(_MOST_BYTES)
        return error.code, b""


def _document(data: bytes) -> Mapping[str, Any] | None:
    """Parse a JSON object; empty for no content, None for anything else."""
    try:
        document = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _shown(text: str) -> str:
    return printable(text)[:_LONGEST_TEXT]
