"""Every error of the Delta log and of the transactions on it, as one tree.

::

    DeltaError
    ├── TableNotFoundError             no Delta log under the path
    ├── TableExistsError               a create met a table
    ├── VersionNotFoundError           a version that the log does not hold
    ├── TimestampOutOfRangeError       a time before the first or after the last commit
    ├── TokenHistoryLostError          commits among which a task's own could be were cleaned up
    ├── CorruptLogError                a log file that cannot be read for what it should be
    │   └── LogGapError                a commit file is missing between others
    ├── CorruptDataFileError           a data file that cannot be read for what the log says
    ├── LegacyCalendarError            a data file with ancient dates of the Julian calendar
    ├── UnsupportedFeatureError
    │   ├── UnsupportedReaderFeatureError
    │   └── UnsupportedWriterFeatureError
    ├── UnsupportedStorageError        a filesystem without the promises that a log needs
    ├── InvalidStatementError          a statement that cannot be meant
    ├── InvalidPredicateError          SQL text that is no predicate on this table, or not decidable here
    ├── InvalidSchemaError             a schema that cannot be read
    ├── InvalidPartitionValueError     a partition value that is none of its column's type
    ├── UnsupportedTypeError           a type that Arrow or Delta does not have
    ├── SchemaMismatchError            rows that do not fit the table
    ├── ConstraintViolatedError        rows that break NOT NULL, an invariant or the replaced range
    ├── AppendOnlyTableError           a change of a table that only takes appends
    ├── DuplicateActionError           one commit that names a file twice
    ├── MultipleSourceRowsMatchedError a MERGE that is ambiguous
    ├── ExpectationFailedError         a gate in front of the commit said no
    ├── RetentionTooShortError         a vacuum that would break readers
    ├── CommitConflictError            a commit that won forbids this one           (retryable)
    │   ├── ProtocolChangedError
    │   ├── MetadataChangedError
    │   ├── ConcurrentDomainMetadataError
    │   ├── ConcurrentTransactionError
    │   ├── ConcurrentAppendError
    │   ├── ConcurrentDeleteReadError
    │   └── ConcurrentDeleteDeleteError
    ├── CommitAttemptsExhaustedError   others were faster each time                 (retryable)
    └── CommitStateUnknownError        the answer was lost, and the log did not tell (retryable)

Errors above the core (jobs, Airflow) hang off the same root. Each error is a keyword-only dataclass: its fields are what a
program asks for, its text is what a person reads and ends in a remedy, and both survive pickling and the JSON of a job's
result document.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

_REGISTRY: dict[str, type[DeltaError]] = {}


@dataclass(kw_only=True, eq=False)
class DeltaError(Exception):
    """Base of every error of this project.

    Attributes:
        code: Stable name of the error, as it stands in result documents and metrics.
        retryable: Whether the same work can succeed when it is run again from the latest snapshot.
        message: Text of the error; its braces name fields.
        remedy: What the user can do; its braces name fields.
    """

    code: ClassVar[str] = "DELTA_ERROR"
    retryable: ClassVar[bool] = False
    message: ClassVar[str] = "the operation failed"
    remedy: ClassVar[str] = "see the log of the job"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.code in _REGISTRY:
            raise TypeError(f"{cls.__name__} reuses the code {cls.code} of {_REGISTRY[cls.code].__name__}")
        _REGISTRY[cls.code] = cls

    def __str__(self) -> str:
        values = self.attributes()
        return f"[{self.code}] {self.message.format(**values)}. Remedy: {self.remedy.format(**values)}."

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.attributes())

    def attributes(self) -> dict[str, Any]:
        """The error's fields by name: JSON values only."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def to_json(self) -> dict[str, Any]:
        """The error as a JSON object: ``code``, ``retryable``, ``text``, ``attributes``."""
        return {"code": self.code, "retryable": self.retryable, "text": str(self), "attributes": self.attributes()}

    @staticmethod
    def from_json(document: dict[str, Any]) -> DeltaError | None:
        """The error that ``to_json`` described, or None when its code is not of this version of the package."""
        error = _REGISTRY.get(document["code"])
        if error is None:
            return None
        known = {each.name for each in fields(error)}
        return error(**{name: value for name, value in document["attributes"].items() if name in known})


def _rebuild(error: type[DeltaError], attributes: dict[str, Any]) -> DeltaError:
    return error(**attributes)


@dataclass(kw_only=True, eq=False)
class TableNotFoundError(DeltaError):
    """There is no Delta log under the path. Spark: ``DELTA_TABLE_NOT_FOUND``, ``DELTA_MISSING_DELTA_TABLE``."""

    code = "DELTA_TABLE_NOT_FOUND"
    message = "{table} is not a Delta table: its _delta_log holds no commit"
    remedy = "check the path, or create the table with a write first"
    table: str


@dataclass(kw_only=True, eq=False)
class TableExistsError(DeltaError):
    """A create met a table that is there already."""

    code = "DELTA_TABLE_EXISTS"
    message = "{table} is a Delta table already (version {version})"
    remedy = "append to it or overwrite it instead"
    table: str
    version: int


@dataclass(kw_only=True, eq=False)
class VersionNotFoundError(DeltaError):
    """The asked version is not (or no longer) in the log. Spark: ``VersionNotFoundException``."""

    code = "DELTA_VERSION_NOT_FOUND"
    message = "{table} has no version {version}; it can be read from {earliest} to {latest}"
    remedy = "ask for one of these versions, or restore the log files that were cleaned up"
    table: str
    version: int
    earliest: int
    latest: int


@dataclass(kw_only=True, eq=False)
class TimestampOutOfRangeError(DeltaError):
    """The asked time lies before the first or after the last commit. Times are milliseconds since the epoch."""

    code = "DELTA_TIMESTAMP_OUT_OF_RANGE"
    message = "{table} has no version for the time {timestamp} ms; its commits reach from {earliest} ms to {latest} ms"
    remedy = "ask for a time in this range, or for a version"
    table: str
    timestamp: int
    earliest: int
    latest: int


@dataclass(kw_only=True, eq=False)
class TokenHistoryLostError(DeltaError):
    """Whether a task has committed is not known: commits that came since it started were cleaned up.

    Attributes:
        after: Version after which the task's commit would be.
        earliest: Earliest later version that the log still holds.
    """

    code = "DELTA_TOKEN_HISTORY_LOST"
    message = "{table} holds no commits between version {after} and {earliest}: that of the task with token {token} may be gone"
    remedy = "look into the table for the task's rows; clear the task to run it again"
    table: str
    token: str
    after: int
    earliest: int


@dataclass(kw_only=True, eq=False)
class CorruptLogError(DeltaError):
    """A file of the log cannot be read for what its name says."""

    code = "DELTA_CORRUPT_LOG"
    message = "{file} of {table} cannot be read: {detail}"
    remedy = "restore the file from a backup, or restore the table to a version that does not need it"
    table: str
    file: str
    detail: str


@dataclass(kw_only=True, eq=False)
class LogGapError(CorruptLogError):
    """Commits are missing between others. Spark: ``DELTA_VERSIONS_NOT_CONTIGUOUS``."""

    code = "DELTA_VERSIONS_NOT_CONTIGUOUS"
    message = "the log of {table} has a gap: {file} is missing ({detail})"


@dataclass(kw_only=True, eq=False)
class CorruptDataFileError(DeltaError):
    """A data file is missing, is no Parquet, or holds a column that cannot become the table's."""

    code = "DELTA_CORRUPT_DATA_FILE"
    message = "{file} of {table} cannot be read: {detail}"
    remedy = "restore the file from a backup, or restore the table to a version that does not need it"
    table: str
    file: str
    detail: str


@dataclass(kw_only=True, eq=False)
class UnsupportedFeatureError(DeltaError):
    """The table asks for what this version does not know. Never raised itself."""

    code = "DELTA_UNSUPPORTED_FEATURE"
    message = "{table} uses {features}, which this version of airflow-delta does not know"
    remedy = "upgrade airflow-delta, or drop the feature from the table"
    table: str
    features: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class UnsupportedReaderFeatureError(UnsupportedFeatureError):
    """Reading would give wrong rows. Spark: ``DELTA_UNSUPPORTED_FEATURES_FOR_READ``."""

    code = "DELTA_UNSUPPORTED_FEATURES_FOR_READ"
    message = "{table} cannot be read: it needs {features}, which this version of airflow-delta does not know"


@dataclass(kw_only=True, eq=False)
class UnsupportedWriterFeatureError(UnsupportedFeatureError):
    """Writing would break a promise of the table. Spark: ``DELTA_UNSUPPORTED_FEATURES_FOR_WRITE``."""

    code = "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"
    message = "{table} cannot be written: it needs {features}, which this version of airflow-delta does not know"


@dataclass(kw_only=True, eq=False)
class UnsupportedStorageError(DeltaError):
    """The filesystem cannot hold a log safely, or its package is not installed."""

    code = "DELTA_UNSUPPORTED_STORAGE"
    message = "{uri} cannot be used: {detail}"
    remedy = "use a filesystem with an atomic create"
    uri: str
    detail: str


@dataclass(kw_only=True, eq=False)
class InvalidStatementError(DeltaError):
    """A statement, or a part of one, that cannot be meant; found before anything ran."""

    code = "DELTA_INVALID_STATEMENT"
    message = "{statement} is not valid: {detail}"
    remedy = "correct the arguments of the operator, or the spec of the job"
    statement: str
    detail: str


@dataclass(kw_only=True, eq=False)
class InvalidPredicateError(DeltaError):
    """The text is no predicate on this table, or cannot be decided exactly where that is needed."""

    code = "DELTA_INVALID_PREDICATE"
    message = "the predicate {predicate!r} cannot be used on {table}: {detail}"
    remedy = "write it with comparisons, IN, BETWEEN, IS NULL, AND, OR and NOT over columns and literals"
    table: str
    predicate: str
    detail: str


@dataclass(kw_only=True, eq=False)
class InvalidSchemaError(DeltaError):
    """The text of a schema is not the JSON of a struct."""

    code = "DELTA_INVALID_SCHEMA"
    message = "the schema cannot be read: {detail}"
    remedy = "restore the table to a version with a readable schema, or set the schema again"
    detail: str


@dataclass(kw_only=True, eq=False)
class InvalidPartitionValueError(DeltaError):
    """A partition value is no value of its column's type."""

    code = "DELTA_INVALID_PARTITION_VALUE"
    message = "{value!r} is no partition value of the column {column!r} ({type})"
    remedy = "rewrite the files of this partition with a proper value"
    column: str
    value: str
    type: str


@dataclass(kw_only=True, eq=False)
class UnsupportedTypeError(DeltaError):
    """A type without a counterpart: of Delta in Arrow, or of Arrow in Delta."""

    code = "DELTA_UNSUPPORTED_TYPE"
    message = "values of the type {type} cannot be read or written"
    remedy = "leave the column out, or cast it to a type of Delta Lake"
    type: str


@dataclass(kw_only=True, eq=False)
class SchemaMismatchError(DeltaError):
    """The rows do not fit the table. Spark: ``DELTA_FAILED_TO_MERGE_FIELDS``, ``_LEGACY_ERROR_TEMP_DELTA_0007``.

    Attributes:
        differences: One line for each column that does not fit.
    """

    code = "DELTA_SCHEMA_MISMATCH"
    message = "the rows do not fit {table}: {differences}"
    remedy = "cast, rename, drop or add these columns in the source"
    table: str
    differences: tuple[str, ...]

    def __str__(self) -> str:
        text = "; ".join(self.differences)
        return f"[{self.code}] the rows do not fit {self.table}: {text}. Remedy: {self.remedy}."


@dataclass(kw_only=True, eq=False)
class ConstraintViolatedError(DeltaError):
    """Rows break a rule of the table or of the statement. Spark: ``DELTA_VIOLATE_CONSTRAINT_WITH_VALUES``."""

    code = "DELTA_CONSTRAINT_VIOLATED"
    message = "{rows} row(s) for {table} break {constraint}"
    remedy = "correct or filter the rows of the source"
    table: str
    constraint: str
    rows: int


@dataclass(kw_only=True, eq=False)
class AppendOnlyTableError(DeltaError):
    """The table only takes appends. Spark: ``DELTA_CANNOT_MODIFY_APPEND_ONLY``."""

    code = "DELTA_CANNOT_MODIFY_APPEND_ONLY"
    message = "{table} only takes appends, but this commit removes rows"
    remedy = "set the table property delta.appendOnly to false first"
    table: str


@dataclass(kw_only=True, eq=False)
class DuplicateActionError(DeltaError):
    """One commit names a file twice. Spark: ``DELTA_DUPLICATE_ACTIONS_FOUND``."""

    code = "DELTA_DUPLICATE_ACTIONS_FOUND"
    message = "the commit to {table} holds two {action} actions for {path!r}"
    remedy = "report this: a writer made one file twice"
    table: str
    action: str
    path: str


@dataclass(kw_only=True, eq=False)
class MultipleSourceRowsMatchedError(DeltaError):
    """More than one source row matches one row of the table, so the result would be arbitrary.

    Spark: ``DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE``.
    """

    code = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    message = "{rows} row(s) of {table} are matched by more than one row of the source (for example {example})"
    remedy = "make the source unique by the merge condition first"
    table: str
    rows: int
    example: str


@dataclass(kw_only=True, eq=False)
class ExpectationFailedError(DeltaError):
    """A check on the staged result failed; nothing was committed.

    Attributes:
        expectation: The check, as SQL.
        rows: Rows that break it; None for a check on the result as a whole.
        example: One such row as text; empty when there is none to show.
    """

    code = "DELTA_EXPECTATION_FAILED"
    message = "the expectation {expectation!r} failed before the commit to {table}: {rows} row(s), for example {example}"
    remedy = "correct the source or the expectation; the table is unchanged"
    table: str
    expectation: str
    rows: int | None
    example: str


@dataclass(kw_only=True, eq=False)
class RetentionTooShortError(DeltaError):
    """A vacuum with this retention could delete files that readers and writers still use."""

    code = "DELTA_RETENTION_TOO_SHORT"
    message = "vacuum of {table} with {retention_hours} h would keep less than the table asks for ({minimum_hours} h)"
    remedy = "use at least the table's delta.deletedFileRetentionDuration, or switch enforce_retention off"
    table: str
    retention_hours: float
    minimum_hours: float


@dataclass(kw_only=True, eq=False)
class CommitConflictError(DeltaError):
    """A commit that won forbids this one; nothing was committed. Never raised itself.

    Spark: ``DeltaConcurrentModificationException``.

    Attributes:
        read_version: Version the attempt was computed from.
        winning_version: Version of the commit that won.
        winner: The winner's commit info, as in the log; its ``job`` tells the DAG run, when it was one of ours.
        path: File concerned, as in the log; None where the rule is not about a file.
        partition: The file's partition values; empty where there are none.
    """

    code = "DELTA_COMMIT_CONFLICT"
    retryable = True
    message = "version {winning_version} of {table} changed what this transaction (read at version {read_version}) needs"
    remedy = "run again from the latest snapshot"
    table: str
    read_version: int
    winning_version: int
    winner: dict[str, Any] = field(default_factory=dict)
    path: str | None = None
    partition: dict[str, str | None] = field(default_factory=dict)

    def __str__(self) -> str:
        job = self.winner.get("job") or {}
        by = f" (made by {job.get('jobName')}, run {job.get('jobRunId')})" if job else ""
        values = self.attributes()
        return f"[{self.code}] {self.message.format(**values)}{by}. Remedy: {self.remedy.format(**values)}."


@dataclass(kw_only=True, eq=False)
class ProtocolChangedError(CommitConflictError):
    """The winner changed the protocol. Spark: ``ProtocolChangedException``."""

    code = "DELTA_PROTOCOL_CHANGED"
    message = "version {winning_version} of {table} changed the protocol after version {read_version} was read"


@dataclass(kw_only=True, eq=False)
class MetadataChangedError(CommitConflictError):
    """The winner changed the metadata. Spark: ``MetadataChangedException``."""

    code = "DELTA_METADATA_CHANGED"
    message = "version {winning_version} of {table} changed schema or properties after version {read_version} was read"


@dataclass(kw_only=True, eq=False)
class ConcurrentDomainMetadataError(CommitConflictError):
    """Both commits set one metadata domain."""

    code = "DELTA_CONCURRENT_DOMAIN_METADATA"
    message = "version {winning_version} of {table} set the metadata domain {domain!r} too"
    domain: str


@dataclass(kw_only=True, eq=False)
class ConcurrentTransactionError(CommitConflictError):
    """The winner moved an application transaction that the attempt read. Spark: ``ConcurrentTransactionException``."""

    code = "DELTA_CONCURRENT_TRANSACTION"
    message = "version {winning_version} of {table} committed the application transaction {app_id!r} too"
    app_id: str


@dataclass(kw_only=True, eq=False)
class ConcurrentAppendError(CommitConflictError):
    """The winner added a file that the attempt should have read. Spark: ``ConcurrentAppendException``."""

    code = "DELTA_CONCURRENT_APPEND"
    message = (
        "version {winning_version} of {table} added {path!r}, which this transaction (read at {read_version}) should have read"
    )
    remedy = "run again from the latest snapshot, or name the partitions in the condition so that other appends do not count"


@dataclass(kw_only=True, eq=False)
class ConcurrentDeleteReadError(CommitConflictError):
    """The winner removed a file that the attempt read. Spark: ``ConcurrentDeleteReadException``."""

    code = "DELTA_CONCURRENT_DELETE_READ"
    message = "version {winning_version} of {table} removed {path!r}, which this transaction (read at {read_version}) used"


@dataclass(kw_only=True, eq=False)
class ConcurrentDeleteDeleteError(CommitConflictError):
    """Both commits remove one file. Spark: ``ConcurrentDeleteDeleteException``."""

    code = "DELTA_CONCURRENT_DELETE_DELETE"
    message = (
        "version {winning_version} of {table} removed {path!r}, which this transaction (read at {read_version}) removes too"
    )


@dataclass(kw_only=True, eq=False)
class CommitAttemptsExhaustedError(DeltaError):
    """Others were faster each time. Spark: ``DELTA_MAX_COMMIT_RETRIES_EXCEEDED``."""

    code = "DELTA_MAX_COMMIT_RETRIES_EXCEEDED"
    retryable = True
    message = "{attempts} attempts to commit to {table} (read at {read_version}) lost against other writers"
    remedy = "run again when fewer writers are at work"
    table: str
    read_version: int
    attempts: int


@dataclass(kw_only=True, eq=False)
class CommitStateUnknownError(DeltaError):
    """The storage did not answer, and the log could not be asked whether the commit is there."""

    code = "DELTA_COMMIT_STATE_UNKNOWN"
    retryable = True
    message = "it is not known whether version {version} of {table} (txnId {txn_id}) was written: {detail}"
    remedy = "look for the txnId in the commit info of that version before running again"
    table: str
    version: int
    txn_id: str
    detail: str


@dataclass(kw_only=True, eq=False)
class LegacyCalendarError(DeltaError):
    """Dates before 1582 or times before 1900 that Spark 2 wrote by the Julian calendar: here they would be read shifted.

    Spark: ``INCONSISTENT_BEHAVIOR_CROSS_VERSION.READ_ANCIENT_DATETIME``.
    """

    code = "DELTA_LEGACY_CALENDAR"
    message = "{file} of {table} holds ancient dates or times that were written by the Julian calendar"
    remedy = "rewrite the file once with Spark 3 or newer, whose reader moves these values to today's calendar"
    table: str
    file: str
