"""Errors of staged commits: rows that are written and checked, and wait to be published."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors.base import DeltaError
from airflow_delta.core.errors.table import CorruptLogError


@dataclass(kw_only=True, eq=False)
class StagedCommitNotFoundError(DeltaError):
    """Nothing is staged under the id, or no longer."""

    code = "DELTA_STAGED_COMMIT_NOT_FOUND"
    message = "nothing is staged for {table} under the id {id!r}, and no commit of it is in the log"
    remedy = "check table and id of the handle; what has expired is deleted with a vacuum: clear the task that staged it"
    table: str
    id: str


@dataclass(kw_only=True, eq=False)
class StagedCommitDamagedError(CorruptLogError):
    """The document of a staged commit cannot be read for what it should be, or is not the one of the handle."""

    code = "DELTA_STAGED_COMMIT_DAMAGED"
    remedy = "clear the task that staged it, to stage it again"


@dataclass(kw_only=True, eq=False)
class StagedCommitExpiredError(DeltaError):
    """What was staged is too old to be published: any engine's vacuum may delete its files, or has done so."""

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
    """Another commit has changed what the staged one was computed from: it can never be published.

    Attributes:
        rule: The code of the conflict; None where the table is another one by now.
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
    """It was to be published, but has been discarded."""

    code = "DELTA_STAGED_COMMIT_DISCARDED"
    message = "what was staged for {table} under the id {id} has been discarded"
    remedy = "clear the task that staged it, if its rows are to come after all"
    table: str
    id: str


@dataclass(kw_only=True, eq=False)
class StagedCommitPublishedError(DeltaError):
    """It was to be discarded, but has been published."""

    code = "DELTA_STAGED_COMMIT_PUBLISHED"
    message = "what was staged for {table} under the id {id} is published: it is version {version}"
    remedy = "restore the version before it, if its rows are to go"
    table: str
    id: str
    version: int


@dataclass(kw_only=True, eq=False)
class StagedCommitPendingError(DeltaError):
    """It was to be discarded, but a task has begun to publish it, and may go on at any moment."""

    code = "DELTA_STAGED_COMMIT_PENDING"
    retryable = True
    message = "what is staged for {table} under the id {id} is being published"
    remedy = "let the task that publishes end, or clear it"
    table: str
    id: str


@dataclass(kw_only=True, eq=False)
class PublishIncompleteError(DeltaError):
    """Of several tables some are published and some are not; each table is all or nothing.

    Attributes:
        published: Table and version of each that is published.
        left: The tables that are not.
        detail: What ended the work.
    """

    code = "DELTA_PUBLISH_INCOMPLETE"
    retryable = True
    message = "published: {published}; not published: {left}, because {detail}"
    remedy = "run it again: it goes on behind what is published"
    published: tuple[str, ...]
    left: tuple[str, ...]
    detail: str
