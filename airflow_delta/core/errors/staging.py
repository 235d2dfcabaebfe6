"""Errors of staged commits: rows that are written and checked, but not yet published."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors.base import DeltaError
from airflow_delta.core.errors.table import CorruptLogError


@dataclass(kw_only=True, eq=False)
class StagedCommitNotFoundError(DeltaError):
    """Nothing is staged under the id, or not any more."""

    code = "DELTA_STAGED_COMMIT_NOT_FOUND"
    message = "nothing is staged for {table} under the id {id!r}, and no commit of it is in the log"
    remedy = "check table and id of the handle; what has expired is deleted with a vacuum: clear the task that staged it"
    table: str
    id: str


@dataclass(kw_only=True, eq=False)
class StagedCommitDamagedError(CorruptLogError):
    """The document of a staged commit is invalid, or is not the one that the handle names."""

    code = "DELTA_STAGED_COMMIT_DAMAGED"
    remedy = "clear the task that staged it, to stage it again"


@dataclass(kw_only=True, eq=False)
class StagedCommitExpiredError(DeltaError):
    """The staged commit is too old to be published: a vacuum of any engine may have deleted its files."""

    code = "DELTA_STAGED_COMMIT_EXPIRED"
    message = "what is staged for {table} under the id {id} cannot be published any more: {detail}"
    remedy = (
        "clear the task that staged it; to have more time, raise delta.deletedFileRetentionDuration of the table before it runs"
    )
    table: str
    id: str
    detail: str


@dataclass(kw_only=True, eq=False)
class StagedCommitOutdatedError(DeltaError):
    """A later commit changed what the staged one was computed from, so it can never be published.

    Attributes:
        rule: The code of the conflict; None if the table has been replaced.
    """

    code = "DELTA_STAGED_COMMIT_OUTDATED"
    message = "what is staged for {table} under the id {id} cannot be published: {detail}"
    remedy = "clear the task that staged it, to compute it from the latest version; DeltaDiscardOperator drops what is staged"
    table: str
    id: str
    detail: str
    rule: str | None = None


@dataclass(kw_only=True, eq=False)
class StagedCommitDiscardedError(DeltaError):
    """A staged commit was to be published, but has been discarded."""

    code = "DELTA_STAGED_COMMIT_DISCARDED"
    message = "what was staged for {table} under the id {id} has been discarded"
    remedy = "to add its rows after all, clear the task that staged it"
    table: str
    id: str


@dataclass(kw_only=True, eq=False)
class StagedCommitPublishedError(DeltaError):
    """A staged commit was to be discarded, but has been published."""

    code = "DELTA_STAGED_COMMIT_PUBLISHED"
    message = "what was staged for {table} under the id {id} is published: it is version {version}"
    remedy = "to remove its rows, restore the version before it"
    table: str
    id: str
    version: int


@dataclass(kw_only=True, eq=False)
class StagedCommitPendingError(DeltaError):
    """A staged commit was to be discarded, but a task has begun to publish it and may finish at any moment."""

    code = "DELTA_STAGED_COMMIT_PENDING"
    retryable = True
    message = "what is staged for {table} under the id {id} is being published"
    remedy = "wait for the task that publishes it to end, or clear that task"
    table: str
    id: str


@dataclass(kw_only=True, eq=False)
class PublishIncompleteError(DeltaError):
    """Of several tables, some are published and some are not; each single table is published completely or not at all.

    Attributes:
        published: The published tables with their versions.
        left: The tables not published.
        detail: What stopped the publishing.
    """

    code = "DELTA_PUBLISH_INCOMPLETE"
    retryable = True
    message = "published: {published}; not published: {left}, because {detail}"
    remedy = "run it again: it continues with those that are not published"
    published: tuple[str, ...]
    left: tuple[str, ...]
    detail: str
