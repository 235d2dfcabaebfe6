"""The commits of a catalog-managed table, with a catalog that lives in this process: for tests, ours and users'."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping

from airflow_delta.core.errors import CommitRefusedError
from airflow_delta.core.log.managed_commits import (
    Maintenance,
    ProposedCommit,
    RatifiedCommit,
    RatifiedCommits,
    TooManyUnpublishedError,
)


class InMemoryManagedCommits:
    """``ManagedCommits`` over a dictionary; thread-safe."""

    def __init__(
        self,
        table_uri: str = "memory://table",
        *,
        limit: int = 10,
        permits: Iterable[Maintenance] = (),
        catalog: str = "memory",
        identity: Mapping[str, str] | None = None,
    ) -> None:
        """A table that is registered in the catalog, without any ratified commit.

        Args:
            table_uri: URI of the table, for errors.
            limit: Most unpublished commits that the catalog keeps.
            permits: The maintenance that the catalog permits to clients.
            catalog: Name of the catalog.
            identity: The table properties that identify the table in the catalog.
        """
        self._table_uri = table_uri
        self._limit = limit
        self._permits = frozenset(permits)
        self._catalog = catalog
        self._identity = dict(identity or {})
        self._commits: dict[int, RatifiedCommit] = {}
        self._latest: int | None = None
        self._lock = threading.Lock()

    @property
    def catalog(self) -> str:
        """Name of the catalog."""
        return self._catalog

    @property
    def identity(self) -> Mapping[str, str]:
        """The table properties that identify the table in the catalog."""
        return self._identity

    @property
    def permits(self) -> Collection[Maintenance]:
        """The maintenance that the catalog permits to clients."""
        return self._permits

    def ratified(self) -> RatifiedCommits:
        """The commits not yet reported as published, and the latest version."""
        with self._lock:
            return RatifiedCommits(
                commits=tuple(self._commits[version] for version in sorted(self._commits)), latest=self._latest
            )

    def ratify(self, commit: ProposedCommit) -> None:
        """Ratify the staged commit as its version."""
        self._take(commit.ratified)

    def ratify_inline(self, version: int, content: bytes, modification_time: int) -> None:
        """Ratify this content as a version that no file holds until it is published."""
        self._take(RatifiedCommit(version=version, size=len(content), modification_time=modification_time, content=content))

    def _take(self, commit: RatifiedCommit) -> None:
        with self._lock:
            if self._latest is not None and commit.version <= self._latest:
                raise FileExistsError(f"version {commit.version} is taken; the latest version is {self._latest}")
            if self._latest is not None and commit.version > self._latest + 1:
                detail = f"expected version {self._latest + 1}, found {commit.version}"
                raise CommitRefusedError(table=self._table_uri, catalog=self._catalog, detail=detail)
            if len(self._commits) >= self._limit:
                raise TooManyUnpublishedError(f"{self._limit} commits are not published")
            self._commits[commit.version] = commit
            self._latest = commit.version

    def published(self, version: int) -> None:
        """Forget the commits up to this version."""
        with self._lock:
            self._commits = {kept: commit for kept, commit in self._commits.items() if kept > version}
