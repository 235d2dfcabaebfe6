"""Errors of a storage that denies access, is full, or does not answer."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors.base import DeltaError


@dataclass(kw_only=True, eq=False)
class StorageAccessError(DeltaError):
    """The storage denied access: no such bucket, no permission, missing or wrong credentials. Nothing was changed.

    Attributes:
        uri: URI of the table.
        detail: The service's message, without anything that could be a secret.
    """

    code = "DELTA_STORAGE_ACCESS"
    message = "the storage of {uri} refused: {detail}"
    remedy = (
        "check that the bucket or directory exists, and that the identity of the storage options, the ambient credentials or "
        "the user of this process may list and read it, and for writing also create and delete files in it"
    )
    uri: str
    detail: str


@dataclass(kw_only=True, eq=False)
class CredentialsExpiredError(StorageAccessError):
    """The credentials have expired. A retry gets new ones if they come from a connection or the environment."""

    code = "DELTA_CREDENTIALS_EXPIRED"
    retryable = True
    message = "the credentials for {uri} have expired: {detail}"
    remedy = "run it again with new credentials; for long jobs use credentials that the environment renews"


@dataclass(kw_only=True, eq=False)
class StorageFullError(StorageAccessError):
    """No space is left, or the quota is exhausted. Nothing was written."""

    code = "DELTA_STORAGE_FULL"
    message = "the storage of {uri} is full, nothing was written: {detail}"
    remedy = "free space or raise the quota, then run it again"


@dataclass(kw_only=True, eq=False)
class AccessDeniedError(DeltaError):
    """The storage denied access to the job."""

    code = "DELTA_ACCESS_DENIED"
    message = "the storage denied access to the job of {table}: {detail}"
    remedy = "grant access to the path to the identity that Spark's driver and executors run as"
    table: str
    detail: str


@dataclass(kw_only=True, eq=False)
class PathOutsideTableError(DeltaError):
    """A table names a file outside of its root: reading it could expose another user's files with this job's permissions.

    Attributes:
        path: The path as in the log, or below the root if a symbolic link leads outside.
    """

    code = "DELTA_PATH_OUTSIDE_TABLE"
    message = "{table} names the file {path!r}, which lies outside of the table"
    remedy = (
        "where the table shares files on purpose, as a shallow clone of another engine does, allow their location by "
        "allowed_prefixes in the extra of the delta connection, or of DeltaLog.for_table and DeltaTable.forPath; otherwise "
        "the table may have been tampered with: restore it to a version without the file"
    )
    table: str
    path: str


@dataclass(kw_only=True, eq=False)
class StorageUnavailableError(DeltaError, OSError):
    """The storage did not answer, or throttled the request, at every attempt. Not about a particular file.

    Attributes:
        uri: URI of the table.
        detail: What happened, without anything that could be a secret.
    """

    code = "DELTA_STORAGE_UNAVAILABLE"
    retryable = True
    message = "the storage of {uri} did not serve the request: {detail}"
    remedy = "run it again later; check the health and the request limits of the storage"
    uri: str
    detail: str
