"""The log of a catalog-managed table as an ordinary log: what is ratified is there, and nothing else."""

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
_REMEMBERED = 1_000  # Ratified commits, the newest: a reader's last version keeps its status when it is published.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the catalog has said so far.

    Attributes:
        kept: The versions whose commits it kept when it was asked last: a commit that is not published is among them.
        commits: Those, and others that it kept before; without the oldest.
        latest: The latest ratified version; -1 until the catalog has said that there is any.
        was_asked: Whether it has been asked yet.
    """

    kept: tuple[int, ...] = ()
    commits: Mapping[int, RatifiedCommit] = field(default_factory=dict)
    latest: int = -1
    was_asked: bool = False

    def followed_by(self, commits: Iterable[RatifiedCommit], latest: int) -> _Known:
        """What is known after an answer with these commits: nothing new by one that a later answer has overtaken."""
        if latest < self.latest:
            return self
        kept = {commit.version: commit for commit in commits}
        merged = {**self.commits, **kept}
        newest = {version: merged[version] for version in sorted(merged)[-_REMEMBERED:]} | kept
        return _Known(kept=tuple(sorted(kept)), commits=newest, latest=latest, was_asked=True)


class ManagedLogStore(LogStoreLayer):
    """A ``LogStore`` whose commits are ratified by a catalog.

    Creating the commit of a version stages it and has it ratified: the guarantee that of racing writers one wins is the
    catalog's. Ratified commits are seen whether published or not, staged ones that are not ratified never, nor is any file of
    a version after the latest ratified one. The commit of version 0 creates the table and is written directly: the catalog
    registers the table with it.
    """

    def __init__(self, store: LogStore, commits: ManagedCommits) -> None:
        """Put the catalog's word over the files.

        Args:
            store: The table's files.
            commits: The table at its catalog.
        """
        super().__init__(store)
        self._commits = commits
        self._known = _Known()
        self._lock = threading.Lock()  # held for a moment, never during a request

    # -- what reads

    def read(self, path: str) -> bytes:
        """As of every store."""
        commit = self._ratified(path)
        return self._store.read(path) if commit is None else self._content(commit)

    def open_input(self, path: str) -> BinaryIO:
        """As of every store."""
        commit = self._ratified(path)
        return self._store.open_input(path) if commit is None else BytesIO(self._content(commit))

    def status(self, path: str) -> FileStatus | None:
        """As of every store."""
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
        """As of every store."""
        if directory.rstrip("/") != LOG_DIRECTORY:
            return self._store.list_from(directory, start)
        return self._list_log(start)

    def _list_log(self, start: str) -> Iterator[FileStatus]:
        """The catalog is asked first: what it no longer keeps by then is published, and so in the listing.

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
        """What is ratified now, and whether the catalog bounds the log at all."""
        said = self._commits.ratified()
        with self._lock:
            known = self._known = self._known.followed_by(said.commits, -1 if said.latest is None else said.latest)
        return known, known.latest >= 0

    def _ratified(self, path: str) -> RatifiedCommit | None:
        """The commit that the catalog keeps or kept under this path; None where the file itself is what counts.

        Raises:
            FileNotFoundError: It is a commit later than the latest ratified one.
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
        except FileNotFoundError:  # cleaned up, which only follows its publication
            return self._store.read(commit_path(commit.version))

    # -- what writes

    def write_if_absent(self, path: str, content: bytes) -> None:
        """As of every store; of a commit, this is its ratification. It is published by ``publish_ratified``.

        Raises:
            CommitRefusedError: The catalog never takes a commit like that.
            As of every store.
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
            except TooManyUnpublishedError as error:  # others were faster again: as a storage that throttles
                raise BlockingIOError(str(error)) from error
        with self._lock:
            known = self._known
            self._known = known.followed_by([*map(known.commits.__getitem__, known.kept), proposed.ratified], name.version)

    def _stage(self, version: int, content: bytes) -> ProposedCommit:
        """Write the commit where no reader looks until it is ratified."""
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

        What others do at the same time does no harm: the content of a ratified commit never changes.

        Returns:
            How many commits were published by this call.

        Raises:
            OSError: The storage or the catalog did not answer; those before it are published.
            StorageAccessError: The storage or the catalog refuses.
            PublishedCommitError: In the place of a commit lies another file; those before it are published.
        """
        said = self._commits.ratified()
        published = sum(map(self._publish, said.commits))
        if said.commits:
            self._commits.published(said.commits[-1].version)
        return published

    def _publish(self, commit: RatifiedCommit) -> bool:
        """Whether the commit was published by this call: it lies in its place in any case, and no other file."""
        path, content = commit_path(commit.version), self._content(commit)
        if not self._store.exists(path):
            with suppress(FileExistsError):
                self._store.write_if_absent(path, content)
                return True
        if self._store.read(path) != content:
            raise PublishedCommitError(table=self.table_uri, file=path, catalog=self.managed_by)
        return False

    def write(self, path: str, content: bytes) -> None:
        """As of every store."""
        self._store.write(path, content)

    def open_output(self, path: str) -> BinaryIO:
        """As of every store."""
        return self._store.open_output(path)

    def delete(self, paths: Iterable[str]) -> None:
        """As of every store."""
        self._store.delete(paths)

    # -- what it is

    @property
    def commits(self) -> ManagedCommits:
        """The table at its catalog."""
        return self._commits

    @property
    def managed_by(self) -> str:
        """Name of the catalog."""
        return self._commits.catalog

    @property
    def identity(self) -> Mapping[str, str]:
        """The properties by which the table's metadata names it at the catalog."""
        return self._commits.identity

    @property
    def permits(self) -> Collection[Maintenance]:
        """The maintenance that the catalog leaves to its clients."""
        return self._commits.permits


def publish_ratified(store: LogStore) -> int:
    """Publish what is ratified, as ``ManagedLogStore.publish_ratified``; nothing where no catalog manages the table."""
    return store.publish_ratified() if isinstance(store, ManagedLogStore) else 0


def _name(path: str) -> LogFileName | None:
    """What the path of a file of the log says; None for every other file."""
    return parse_name(path.removeprefix(_LOG)) if path.startswith(_LOG) else None
