"""Errors about the state of a table: whether it exists, which versions it has, what is damaged."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors.base import DeltaError
from airflow_delta.core.foreign_values import moment


@dataclass(kw_only=True, eq=False)
class TableNotFoundError(DeltaError):
    """There is no Delta log at the path. Spark: ``DELTA_TABLE_NOT_FOUND``, ``DELTA_MISSING_DELTA_TABLE``."""

    code = "DELTA_TABLE_NOT_FOUND"
    message = "{table} is not a Delta table: its _delta_log has no commit"
    remedy = "check the path, or create the table with a write first"
    table: str


@dataclass(kw_only=True, eq=False)
class TableExistsError(DeltaError):
    """The table to be created exists already."""

    code = "DELTA_TABLE_EXISTS"
    message = "{table} already exists as a Delta table (version {version})"
    remedy = 'append to the table or overwrite it, keep it (mode="ignore" of a create), or create it at another path'
    table: str
    version: int


@dataclass(kw_only=True, eq=False)
class LocationNotEmptyError(DeltaError):
    """The place of a new table holds files of no table, which the new table's first vacuum would delete.

    Attributes:
        file: One of the files, below the table's root.
    """

    code = "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
    message = "{table} is no Delta table, and files lie there, such as {file!r}; expected an empty place for a new table"
    remedy = "create the table at another path, convert the files, or delete them if they are what a failed write has left"
    table: str
    file: str


@dataclass(kw_only=True, eq=False)
class InvalidProtocolError(DeltaError):
    """The table's protocol contradicts itself: the table can be read, but it is unknown what writers must do.

    Attributes:
        contradictions: One line for each contradiction.
    """

    code = "DELTA_INVALID_PROTOCOL"
    message = "{table} cannot be written, its protocol contradicts itself: {contradictions}"
    remedy = (
        "add a feature that is missing (delta.feature.<name> = supported), or repair the protocol with the engine that wrote it"
    )
    table: str
    contradictions: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class VersionNotFoundError(DeltaError):
    """The requested version is not (or no longer) in the log. Spark: ``VersionNotFoundException``."""

    code = "DELTA_VERSION_NOT_FOUND"
    message = "{table} has no version {version}; it can be read from {earliest} to {latest}"
    remedy = "use one of these versions, or restore the deleted log files from a backup"
    table: str
    version: int
    earliest: int
    latest: int


@dataclass(kw_only=True, eq=False)
class TimestampOutOfRangeError(DeltaError):
    """The requested time lies before the first or after the last commit. Times are milliseconds since the epoch."""

    code = "DELTA_TIMESTAMP_OUT_OF_RANGE"
    message = "{table} has no version for the time {timestamp}; its commits reach from {earliest} to {latest}"
    remedy = "use a time in this range, or a version"
    table: str
    timestamp: int
    earliest: int
    latest: int

    def claim(self) -> str:
        """What happened and where, with readable times."""
        times = {name: moment(getattr(self, name)) for name in ("timestamp", "earliest", "latest")}
        return self.message.format(**self.attributes() | times)


@dataclass(kw_only=True, eq=False)
class RunCommitNotFoundError(DeltaError):
    """The log holds no commit of the task run whose version was requested: the run committed nothing, or it was cleaned up.

    Attributes:
        run: The task run that was requested.
    """

    code = "DELTA_RUN_COMMIT_NOT_FOUND"
    message = "no commit of {table} was made by {run}; its log can be read from version {earliest} to {latest}"
    remedy = "run `airflow-delta history` to see which runs committed, or use a version or a timestamp"
    table: str
    run: str
    earliest: int
    latest: int


@dataclass(kw_only=True, eq=False)
class TableReplacedError(DeltaError):
    """A pinned version is gone, because the table was replaced."""

    code = "DELTA_TABLE_REPLACED"
    message = "version {version} of {table} is not the one that was pinned: the table was replaced by a new one"
    remedy = "run the task that pins with refresh=True to pin the table that is there now"
    table: str
    version: int


@dataclass(kw_only=True, eq=False)
class TablesInMotionError(DeltaError):
    """Of the tables to be pinned together, some had new commits each time they were read."""

    code = "DELTA_TABLES_IN_MOTION"
    retryable = True
    message = "no common point in time found for {tables}: some changed during each of {looks} reads"
    remedy = "run it again, or pin them at a time: as_of=Timestamp(...)"
    tables: tuple[str, ...]
    looks: int


@dataclass(kw_only=True, eq=False)
class TokenHistoryLostError(DeltaError):
    """Whether a task has committed is unknown: commits made since it started were cleaned up.

    Attributes:
        after: Version after which the task's commit would be.
        earliest: Earliest later version that the log still holds.
    """

    code = "DELTA_TOKEN_HISTORY_LOST"
    message = (
        "{table} has lost the commits between versions {after} and {earliest}: the commit of the task with token {token} may "
        "be among them"
    )
    remedy = "check whether the task's rows are in the table; if not, clear the task to run it again"
    table: str
    token: str
    after: int
    earliest: int


@dataclass(kw_only=True, eq=False)
class CorruptLogError(DeltaError):
    """A file of the log has invalid content."""

    code = "DELTA_CORRUPT_LOG"
    message = "{file} of {table} cannot be read: {detail}"
    remedy = (  # a restore of the table would open its newest version, which needs the file, too
        "restore the file from a backup; earlier versions that do not need it can still be read (version=...) and written into "
        "a new table"
    )
    table: str
    file: str
    detail: str


@dataclass(kw_only=True, eq=False)
class LogGapError(CorruptLogError):
    """A commit is missing between others. Spark: ``DELTA_VERSIONS_NOT_CONTIGUOUS``."""

    code = "DELTA_VERSIONS_NOT_CONTIGUOUS"
    message = "the log of {table} has a gap: {file} is missing ({detail})"


@dataclass(kw_only=True, eq=False)
class UnfinishedCommitError(CorruptLogError):
    """The newest commit file is incomplete: its writer died on a filesystem without hard links, or is still running.

    An older one was complete once, and is a ``CorruptLogError``.
    """

    code = "DELTA_UNFINISHED_COMMIT"
    retryable = True
    message = "{file} of {table} is incomplete: {detail}"
    remedy = (
        "wait a moment and run again; if no writer is running any more, delete the file: nothing of this commit is part of "
        "the table, and the next commit takes its version"
    )


@dataclass(kw_only=True, eq=False)
class CorruptDataFileError(DeltaError):
    """A data file is not valid Parquet, or has a column that cannot be read as the table's."""

    code = "DELTA_CORRUPT_DATA_FILE"
    message = "{file} of {table} cannot be read: {detail}"
    remedy = "restore the file from a backup, or restore the table to a version that does not need it"
    table: str
    file: str
    detail: str


@dataclass(kw_only=True, eq=False)
class MissingDataFileError(CorruptDataFileError):
    """A file of the version does not exist."""

    code = "DELTA_DATA_FILE_MISSING"
    message = "{file} of {table} is missing: {detail}"
    remedy = "a vacuum may have deleted it: read a newer version, or restore the file from a backup"


@dataclass(kw_only=True, eq=False)
class LegacyCalendarError(DeltaError):
    """Dates before 1582 or timestamps before 1900 that Spark 2 wrote in the Julian calendar; they would be read shifted here.

    Spark: ``INCONSISTENT_BEHAVIOR_CROSS_VERSION.READ_ANCIENT_DATETIME``.
    """

    code = "DELTA_LEGACY_CALENDAR"
    message = "{file} of {table} holds ancient dates or times that were written by the Julian calendar"
    remedy = "rewrite the file once with Spark 3 or newer, whose reader converts these values to the Gregorian calendar"
    table: str
    file: str


@dataclass(kw_only=True, eq=False)
class InvalidSchemaError(DeltaError):
    """The schema text is not the JSON of a struct."""

    code = "DELTA_INVALID_SCHEMA"
    message = "the schema cannot be read: {detail}"
    remedy = (  # a restore of the table would read the newest schema, too
        "set the schema again with the engine that wrote it; earlier versions can still be read (version=...) and written into "
        "a new table"
    )
    detail: str


@dataclass(kw_only=True, eq=False)
class InvalidPartitionValueError(DeltaError):
    """A partition value is not a value of its column's type."""

    code = "DELTA_INVALID_PARTITION_VALUE"
    message = "{value!r} is not a valid partition value for the column {column!r} ({type})"
    remedy = "rewrite the files of this partition with a value of this type"
    column: str
    value: str
    type: str


@dataclass(kw_only=True, eq=False)
class UnwritablePartitionValueError(InvalidPartitionValueError):
    """A partition value has no text form that every reader would recognize; nothing was committed."""

    code = "DELTA_UNWRITABLE_PARTITION_VALUE"
    message = "expected a value of the partition column {column!r} ({type}) that the log can hold as text, found {value}"
    remedy = (
        "correct the value: bytes must be UTF-8 text, years 1 to 9999, and numbers fit the type; or partition by a column of "
        "text made of it, such as hex({column})"
    )
