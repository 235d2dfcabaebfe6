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
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.transaction.commit_checks import is_empty
from airflow_delta.core.transaction.winning_commit import WinningCommit

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryingLogWriter:
    """Writes the next commit of a table and reads those of others, with retries.

    Attributes:
        store: The table.
        backoff: How often a request is sent that the storage does not answer, and when again.
    """

    store: LogStore
    backoff: Backoff

    def write(self, version: int, content: bytes) -> bool:
        """Try to create the commit of this version; False when it exists already, perhaps with this very content.

        Raises:
            OSError: No answer, and the version is still free as far as the storage shows.
            StorageAccessError: The storage refuses to write, and the version is free.
            CommitRefusedError, TableNotFoundError, CatalogAnswerError: The same of the catalog that manages the table.
        """
        try:
            self._with_retries(partial(self.store.write_if_absent, commit_path(version), content))
        except FileExistsError:
            return False
        except (OSError, DeltaError) as error:
            # Refused or not: an earlier sending may have arrived, as one before the credentials ended or the catalog refused.
            if self._has_arrived(version, error):
                return False
            raise
        return True

    def _has_arrived(self, version: int, error: Exception) -> bool:
        """Whether there is a commit of this version behind a sending that ended in this error. Raises as ``_read_back``."""
        try:
            return self._read_back(partial(self.store.exists, commit_path(version)))
        except OSError:
            if isinstance(error, TableNotFoundError):  # nor is it there to be asked for
                return False
            raise

    def winners(self, version: int, *, attempts: int, with_time: bool) -> list[WinningCommit]:
        """The commits from ``version`` on, up to one that cannot be read, and their times in history where these matter.

        From the second lost attempt on there is a pause first: the commits that come during it would win the next one, too, if
        they were not read.

        Raises:
            OSError: No answer, or a refusal.
            UnfinishedCommitError: The first of them is only half written.
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

        A storage that refuses, or a catalog that gives no keys for it, leaves the outcome unknown: an ``OSError``.
        """
        try:
            return self._with_retries(question)
        except CorruptLogError:  # an answer, too
            raise
        except DeltaError as error:
            raise OSError(str(error)) from error

    def _with_retries(self, request: Callable[[], Answer]) -> Answer:
        """Send a request, again after each failure, up to ``backoff.tries`` times.

        A create may be repeated: if the first request succeeded, the next finds the file, and its content shows whose it is.
        """
        for number in self.backoff.numbers():
            try:
                return request()
            except FileExistsError:
                raise
            except (OSError, UnfinishedCommitError):  # the latter: its writer may still be running
                if number == self.backoff.tries - 1:
                    raise
        raise AssertionError("a backoff has at least one try")


def _whole_commit(store: LogStore, version: int) -> CommitActions:
    """The actions of the commit. Raises ``UnfinishedCommitError`` also for an empty commit: nothing may be based on it."""
    actions = read_commit(store, version)
    if actions.commit_info is None and is_empty(actions):
        detail = "it exists but is empty; another writer may still be writing it"
        raise UnfinishedCommitError(table=store.table_uri, file=commit_path(version), detail=detail)
    return actions


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
            return  # those before it decide first: one of them may be ours
        is_first = False
        yield WinningCommit(version=version, actions=actions)
        version += 1
