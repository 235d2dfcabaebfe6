"""Errors of the work on DataFrames, on the tree of ``airflow_delta.core.errors``."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors import DeltaError


@dataclass(kw_only=True, eq=False)
class SourceUnreadableError(DeltaError):
    """The source of a statement is missing, or its query does not fit what it reads."""

    code = "DELTA_SOURCE_UNREADABLE"
    message = "the source {source!r} cannot be read: {detail}"
    remedy = "check the path, the names of columns and views, and the SQL"
    source: str
    detail: str


@dataclass(kw_only=True, eq=False)
class StagedFilesError(DeltaError):
    """What lies in the staging directory is not what Spark said that it wrote; nothing was committed."""

    code = "DELTA_STAGED_FILES_DIFFER"
    retryable = True
    message = "the files written for {table} do not hold the rows that were written: {detail}"
    remedy = "run again; should it stay, look for a committer or a cleaner that touches the table's directory"
    table: str
    detail: str


@dataclass(kw_only=True, eq=False)
class ExpectationUnreadableError(DeltaError):
    """A check is no SQL on the staged rows; nothing was committed."""

    code = "DELTA_EXPECTATION_UNREADABLE"
    message = "the expectation {expectation!r} cannot be checked: {detail}"
    remedy = "correct its SQL; the table is unchanged"
    expectation: str
    detail: str
