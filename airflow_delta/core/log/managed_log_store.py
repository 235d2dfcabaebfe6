"""The log of a catalog-managed table as an ordinary log: it shows exactly the ratified commits."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from typing import BinaryIO

from airflow_delta.core.actions import CommitInfo, Metadata, Protocol
from airflow_delta.core.errors import CatalogAnswerError, CommitRefusedError, PublishedCommitError
from airflow_delta.core.log.file_names import (
    LOG_DIRECTORY,
    LogFileKind,
    LogFileName,
    commit_path,
    parse_name,
    staged_commit_file,
    staged_commit_path,
)
from airflow_delta.core.log.managed_commits import (
    Maintenance,
    ManagedCommits,
    ProposedCommit,
    RatifiedCommit,
    TooManyUnpublishedError,
)
from airflow_delta.core.log.non_file_actions import COMMIT_INFO, METADATA, PROTOCOL, LogText, NonFileActions
from airflow_delta.core.storage.log_store import FileStatus, LogStore
from airflow_delta.core.storage.log_store_layer import LogStoreLayer

_LOG = f"{LOG_DIRECTORY}/"
_HOLD_A_VERSION = {kind for kind in LogFileKind if kind not in (LogFileKind.CHECKSUM, LogFileKind.COMPACTED_COMMITS)}
_REMEMBERED = 1_000  # the newest ratified commits; keeps the status of a reader's last version the same after publication


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the catalog has answered so far.

    Attributes:
        kept: The versions whose commits the catalog kept at the last request; every unpublished commit is among them.
        commits: Those commits, and others that it kept before, without the oldest.
        latest: The latest ratified version; -1 before the catalog has reported one.
        was_asked: Whether the catalog has been asked yet.
    """

    kept: tuple[int, ...] = ()
    commits: Mapping[int, RatifiedCommit] = field(default_factory=dict)
    latest: int = -1
    was_asked: bool = False

    def followed_by(self, commits: Iterable[RatifiedCommit], latest: int) -> _Known:
        """What is known after an answer with these commits; an answer that a later one has overtaken adds nothing."""
        if latest < self.latest:
            return self
        kept = {commit.version: commit for commit in commits}
        merged = {**self.commits, **kept}
        newest = {version: merged[version] for version in sorted(merged)[-_REMEMBERED:]} | kept
        return _Known(kept=tuple(sorted(kept)), commits=newest, latest=latest, was_asked=True)


class ManagedLogStore(LogStoreLayer):
    """A ``LogStore`` whose commits a catalog ratifies.

    Creating a commit stages it and has it ratified: the catalog guarantees that only one of several concurrent writers wins a
    version. Ratified commits are visible whether published or not; staged commits that are not ratified are never visible, nor
    is any file of a version after the latest ratified one. The commit of version 0 creates the table and is written directly:
    the catalog registers the table with it.
    """

    def __init__(self, store: LogStore, commits: ManagedCommits) -> None:
        """Put the catalog's view over the files.

        Args:
            store: The table's log store.
            commits: The table's commits in its catalog.
        """
        super().__init__(store)
        self._commits = commits
        self._known = _Known()
        self._lock = threading.Lock()  # held only briefly, never during a request

    # -- reading

    def read(self, path: str) -> bytes:
        """As of ``LogStore``."""
        commit = self._ratified(path)
        return self._store.read(path) if commit is None else self._content(commit)

    def open_input(self, path: str) -> BinaryIO:
        """As of ``LogStore``."""
        commit = self._ratified(path)
        return self._store.open_input(path) if commit is None else BytesIO(self._content(commit))

    def status(self, path: str) -> FileStatus | None:
        """As of ``LogStore``."""
        name = _name(path)
        if name is None or name.kind is not LogFileKind.COMMIT:
            return self._store.status(path)
        known, is_bounded = self._ask()
        if is_bounded and name.version > known.latest:
            return None
        commit = known.commits.get(name.version)
        if commit is not None and name.version in known.kept:
            return commit.status
        published = self._store.status(path)
        return commit.status if commit and published else published

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStatus]:
        """As of ``LogStore``."""
        if directory.rstrip("/") != LOG_DIRECTORY:
            return self._store.list_from(directory, start)
        return self._list_log(start)

    def _list_log(self, start: str) -> Iterator[FileStatus]:
        """Asks the catalog first: commits that it no longer keeps by then are published, and so in the listing.

        Raises:
            CatalogAnswerError: The latest version is neither kept by the catalog nor in the listing.
        """
        known, is_bounded = self._ask()
        ratified = {commit.status.path: commit.status for commit in known.commits.values()}
        waiting = [path for path in map(commit_path, known.kept) if path.removeprefix(_LOG) >= start]
        waiting.reverse()
        is_found = known.latest in known.kept or not is_bounded or commit_path(known.latest).removeprefix(_LOG) < start
        for listed in self._store.list_from(LOG_DIRECTORY, start):
            name = _name(listed.path)
            if is_bounded and name is not None and max(name.version, name.end or 0) > known.latest:
                continue
            is_found = is_found or (name is not None and name.version == known.latest and name.kind in _HOLD_A_VERSION)
            while waiting and waiting[-1] < listed.path:
                yield ratified[waiting.pop()]
            if waiting and waiting[-1] == listed.path:
                waiting.pop()
            yield ratified.get(listed.path, listed)
        yield from (ratified[path] for path in reversed(waiting))
        if not is_found:
            detail = f"its latest version is {known.latest}, whose commit neither it nor the log has"
            raise CatalogAnswerError(table=self.table_uri, catalog=self.managed_by, detail=detail)

    def _ask(self) -> tuple[_Known, bool]:
        """The commits ratified now, and whether the catalog has ratified any, and so bounds the log."""
        said = self._commits.ratified()
        with self._lock:
            known = self._known = self._known.followed_by(said.commits, -1 if said.latest is None else said.latest)
        return known, known.latest >= 0

    def _ratified(self, path: str) -> RatifiedCommit | None:
        """The commit that the catalog keeps or kept under this path; None if the file itself counts.

        Raises:
            FileNotFoundError: The path is a commit later than the latest ratified one.
        """
        name = _name(path)
        if name is None or name.kind is not LogFileKind.COMMIT:
            return None
        known = self._known
        if not known.was_asked or (name.version > known.latest and not (known.latest < 0 and self._store.exists(path))):
            known, is_bounded = self._ask()
            if is_bounded and name.version > known.latest:
                raise FileNotFoundError(path)
        return known.commits.get(name.version)

    def _content(self, commit: RatifiedCommit) -> bytes:
        if commit.content is not None:
            return commit.content
        try:
            return self._store.read(staged_commit_path(commit.file_name))
        except FileNotFoundError:  # cleaned up, which only happens after publication
            return self._store.read(commit_path(commit.version))

    # -- writing

    def write_if_absent(self, path: str, content: bytes) -> None:
        """As of ``LogStore``; for a commit, stages it and has it ratified. ``publish_ratified`` publishes it.

        Raises:
            CommitRefusedError: The catalog will never accept this commit.
            As of ``LogStore``.
        """
        name = _name(path)
        if name is None or name.kind is not LogFileKind.COMMIT or name.version == 0:
            self._store.write_if_absent(path, content)
            return
        proposed = self._stage(name.version, content)
        try:
            self._commits.ratify(proposed)
        except TooManyUnpublishedError:
            self.publish_ratified()
            try:
                self._commits.ratify(proposed)
            except TooManyUnpublishedError as error:  # other writers were faster again: treated like a storage that throttles
                raise BlockingIOError(str(error)) from error
        with self._lock:
            known = self._known
            self._known = known.followed_by([*map(known.commits.__getitem__, known.kept), proposed.ratified], name.version)

    def _stage(self, version: int, content: bytes) -> ProposedCommit:
        """Write the commit where readers ignore it until it is ratified."""
        actions = NonFileActions(
            self.table_uri, [LogText.from_content(commit_path(version), version, content)], (COMMIT_INFO, PROTOCOL, METADATA)
        )
        info = actions.last_of(COMMIT_INFO, CommitInfo.from_json)
        if info is None or info.in_commit_timestamp is None or info.txn_id is None:
            detail = "a commit to a catalog-managed table carries its in-commit timestamp and its txnId"
            raise CommitRefusedError(table=self.table_uri, catalog=self.managed_by, detail=detail)
        file_name = staged_commit_file(version, str(uuid.uuid4()))
        self._store.write_if_absent(staged_commit_path(file_name), content)
        status = self._store.status(staged_commit_path(file_name))
        return ProposedCommit(
            version=version,
            file_name=file_name,
            size=len(content),
            modification_time=status.modification_time if status else info.in_commit_timestamp,
            timestamp=info.in_commit_timestamp,
            protocol=actions.last_of(PROTOCOL, Protocol.from_json),
            metadata=actions.last_of(METADATA, Metadata.from_json),
        )

    def publish_ratified(self) -> int:
        """Copy every ratified commit to its place in the log, in order, and let the catalog forget them.

        Safe to run concurrently: the content of a ratified commit never changes.

        Returns:
            How many commits this call published.

        Raises:
            OSError: The storage or the catalog did not answer; the commits before are published.
            StorageAccessError: The storage or the catalog denies access.
            PublishedCommitError: Another file is in the place of a commit; the commits before are published.
        """
        said = self._commits.ratified()
        published = sum(map(self._publish, said.commits))
        if said.commits:
            self._commits.published(said.commits[-1].version)
        return published

    def _publish(self, commit: RatifiedCommit) -> bool:
        """Whether this call published the commit; False if it was already published. Raises if another file is in its place."""
        path, content = commit_path(commit.version), self._content(commit)
        if not self._store.exists(path):
            with suppress(FileExistsError):
                self._store.write_if_absent(path, content)
                return True
        if self._store.read(path) != content:
            raise PublishedCommitError(table=self.table_uri, file=path, catalog=self.managed_by)
        return False

    def write(self, path: str, content: bytes) -> None:
        """As of ``LogStore``."""
        self._store.write(path, content)

    def open_output(self, path: str) -> BinaryIO:
        """As of ``LogStore``."""
        return self._store.open_output(path)

    def delete(self, paths: Iterable[str]) -> None:
        """As of ``LogStore``."""
        self._store.delete(paths)

    # -- the catalog

    @property
    def commits(self) -> ManagedCommits:
        """The table's commits in its catalog."""
        return self._commits

    @property
    def managed_by(self) -> str:
        """Name of the catalog."""
        return self._commits.catalog

    @property
    def identity(self) -> Mapping[str, str]:
        """The properties in the table's metadata that identify it in the catalog."""
        return self._commits.identity

    @property
    def permits(self) -> Collection[Maintenance]:
        """The maintenance that the catalog permits to clients."""
        return self._commits.permits


def publish_ratified(store: LogStore) -> int:
    """Publish ratified commits, as ``ManagedLogStore.publish_ratified``; does nothing for tables without a catalog."""
    return store.publish_ratified() if isinstance(store, ManagedLogStore) else 0


def _name(path: str) -> LogFileName | None:
    """The parsed file name of a path of the log; None for every other file."""
    return parse_name(path.removeprefix(_LOG)) if path.startswith(_LOG) else None
