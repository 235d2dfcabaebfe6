"""The log requests of the commit loop, retried while the storage does not answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from airflow_delta.core.actions import CommitActions
from airflow_delta.core.backoff import Backoff
from airflow_delta.core.errors import CorruptLogError, DeltaError, LogGapError, TableNotFoundError, UnfinishedCommitError
from airflow_delta.core.log.commit_reader import read_commit
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.log.history import monotonic_times
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.log.unfinished_commits import read_settled
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.transaction.commit_checks import is_empty
from airflow_delta.core.transaction.winning_commit import WinningCommit

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryingLogWriter:
    """Writes the next commit of a table and reads those of other writers, with retries.

    Attributes:
        store: The table's log store.
        backoff: How often an unanswered request is sent, and the pauses in between.
    """

    store: LogStore
    backoff: Backoff

    def write(self, version: int, content: bytes) -> bool:
        """Try to create the commit of this version; False if the version exists already, perhaps with this very content.

        Raises:
            OSError: No answer, and as far as the storage shows the version is still free.
            StorageAccessError: The storage denies writing, and the version is free.
            CommitRefusedError, TableNotFoundError, CatalogAnswerError: Likewise, from the catalog that manages the table.
        """
        try:
            self._with_retries(partial(self.store.write_if_absent, commit_path(version), content))
        except FileExistsError:
            return False
        except (OSError, DeltaError) as error:
            # Whatever the error, an earlier request may have succeeded, as before the credentials expired.
            if self._has_arrived(version, error):
                return False
            raise
        return True

    def _has_arrived(self, version: int, error: Exception) -> bool:
        """Whether the version exists after a request that failed with this error. Raises as ``_read_back``."""
        try:
            return self._read_back(partial(self.store.exists, commit_path(version)))
        except OSError:
            if isinstance(error, TableNotFoundError):  # the catalog cannot be asked about it, either
                return False
            raise

    def winners(self, version: int, *, attempts: int, with_time: bool) -> list[WinningCommit]:
        """The commits from ``version`` on, until one that cannot be read, with their history timestamps if ``with_time``.

        From the second lost attempt on it waits first, and so also reads the commits made during the wait: they would otherwise
        win the next version, too.

        Raises:
            OSError: No answer, or access was denied.
            UnfinishedCommitError: The first of them is incomplete.
            CorruptLogError: The first of them cannot be read.
        """
        if attempts > 1:
            self.backoff.pause(attempts - 2)
        winners = self._read_back(lambda: list(_commits_from(self.store, version)))
        if not with_time or all(winner.has_own_time for winner in winners):
            return winners
        times = monotonic_times(self._read_back(lambda: list_log(self.store)).commits)
        return [replace(winner, file_time=times.get(winner.version)) for winner in winners]

    def _read_back(self, question: Callable[[], Answer]) -> Answer:
        """The answer to a read that decides whether a write succeeded.

        If the storage denies access, or the catalog issues no credentials for it, the outcome is unknown: an ``OSError``.
        """
        try:
            return self._with_retries(question)
        except CorruptLogError:  # this is an answer, too
            raise
        except DeltaError as error:
            raise OSError(str(error)) from error

    def _with_retries(self, request: Callable[[], Answer]) -> Answer:
        """Send a request, up to ``backoff.tries`` times until it succeeds.

        Creating a file may be repeated: if the first request succeeded, the next one finds the file, and its content shows
        whose it is.
        """
        for number in self.backoff.numbers():
            try:
                return request()
            except FileExistsError:
                raise
            except (OSError, UnfinishedCommitError):  # UnfinishedCommitError: its writer may still be running
                if number == self.backoff.tries - 1:
                    raise
        raise AssertionError("a backoff has at least one try")


def _whole_commit(store: LogStore, version: int) -> CommitActions:
    """The actions of the commit. An empty commit file is cut off, too: nothing may be based on it."""

    def read() -> CommitActions:
        actions = read_commit(store, version)
        if actions.commit_info is None and is_empty(actions):
            raise UnfinishedCommitError(table=store.table_uri, file=commit_path(version), detail="it is empty")
        return actions

    return read_settled(store, read)


def _commits_from(store: LogStore, version: int) -> Iterator[WinningCommit]:
    is_first = True
    while True:
        try:
            actions = _whole_commit(store, version)
        except LogGapError:  # the end of the log
            return
        except CorruptLogError:  # or unfinished
            if is_first:
                raise
            return  # the commits before it are checked first: one of them may be ours
        is_first = False
        yield WinningCommit(version=version, actions=actions)
        version += 1
