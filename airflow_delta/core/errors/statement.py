"""Errors of a statement: it is invalid, or the table or an expectation rejects it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors.base import DeltaError

NOTHING_RENDERED = "; a template that finds nothing, such as an XCom that no task has pushed, renders to None"
"""Appended to an error's detail where the text ``None`` was found."""


@dataclass(kw_only=True, eq=False)
class InvalidStatementError(DeltaError):
    """The statement is invalid; raised before execution."""

    code = "DELTA_INVALID_STATEMENT"
    message = "{statement} is not valid: {detail}"
    remedy = "correct the arguments"
    statement: str
    detail: str


@dataclass(kw_only=True, eq=False)
class SqlTextError(InvalidStatementError):
    """The SQL text of a statement is not covered by the grammar here; nothing ran.

    Attributes:
        line: Line of the error in the text, from 1.
        column: Column of the error, in characters.
        instead: What the user can do instead.
    """

    code = "DELTA_INVALID_SQL_TEXT"
    message = "the text of {statement} is not valid at line {line}, column {column}: {detail}"
    remedy = "{instead}"
    line: int
    column: int
    instead: str


@dataclass(kw_only=True, eq=False)
class RelativePathError(DeltaError):
    """A table or another place is given by a relative path, which would depend on the machine and its working directory.

    Attributes:
        path: The path as given.
        detail: Why there is no base to resolve it against.
    """

    code = "DELTA_RELATIVE_PATH"
    message = "{path!r} is a relative path, and {detail}"
    remedy = (
        "write a URI or an absolute path; tables may be relative to the table root (the host) of the delta connection, "
        "and have names such as sales.orders where it has a catalog"
    )
    path: str
    detail: str


@dataclass(kw_only=True, eq=False)
class InvalidPredicateError(DeltaError):
    """The text is not a predicate on this table, or cannot be evaluated exactly where that is required.

    Attributes:
        cure: What would make it usable.
    """

    code = "DELTA_INVALID_PREDICATE"
    message = "the predicate {predicate!r} cannot be used on {table}: {detail}"
    remedy = "{cure}"
    table: str
    predicate: str
    detail: str
    cure: str = "write it with comparisons, IN, BETWEEN, IS NULL, AND, OR and NOT over columns and literals"


@dataclass(kw_only=True, eq=False)
class AmbiguousColumnError(DeltaError):
    """A name that matches no column exactly, and several columns if case is ignored. Spark: ``AMBIGUOUS_REFERENCE``."""

    code = "DELTA_AMBIGUOUS_COLUMN"
    message = "the name {column!r} is ambiguous: ignoring case, it matches {candidates}"
    remedy = "use the exact spelling of one of them"
    column: str
    candidates: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class SchemaMismatchError(DeltaError):
    """The rows do not fit the table. Spark: ``DELTA_FAILED_TO_MERGE_FIELDS``, ``_LEGACY_ERROR_TEMP_DELTA_0007``.

    Attributes:
        differences: One line for each column that does not fit.
    """

    code = "DELTA_SCHEMA_MISMATCH"
    message = "the rows do not fit {table}: {differences}"
    remedy = (
        "cast, rename, drop or add these columns in the source, or let the table change: merge_schema (write), "
        "overwrite_schema (overwrite), schema_evolution (merge)"
    )
    table: str
    differences: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class ConstraintViolatedError(DeltaError):
    """Rows break a rule of the table or of the statement. Spark: ``DELTA_VIOLATE_CONSTRAINT_WITH_VALUES``.

    Attributes:
        example: The values of one of the rows, where available; long texts are cut.
    """

    code = "DELTA_CONSTRAINT_VIOLATED"
    message = "{rows} row(s) for {table} violate {constraint}"
    remedy = "correct or filter the rows of the source"
    table: str
    constraint: str
    rows: int
    example: str = ""

    def claim(self) -> str:
        """What happened and where, with the example."""
        return super().claim() + (f", such as {self.example}" if self.example else "")


@dataclass(kw_only=True, eq=False)
class AppendOnlyTableError(DeltaError):
    """The table is append-only. Spark: ``DELTA_CANNOT_MODIFY_APPEND_ONLY``."""

    code = "DELTA_CANNOT_MODIFY_APPEND_ONLY"
    message = "{table} is append-only, but this commit removes rows"
    remedy = "set the table property delta.appendOnly to false first"
    table: str


@dataclass(kw_only=True, eq=False)
class DuplicateActionError(DeltaError):
    """A commit names a file twice. Spark: ``DELTA_DUPLICATE_ACTIONS_FOUND``."""

    code = "DELTA_DUPLICATE_ACTIONS_FOUND"
    message = "the commit to {table} holds two {action} actions for {path!r}"
    remedy = "report this: it is a bug in the writer of the file"
    table: str
    action: str
    path: str


@dataclass(kw_only=True, eq=False)
class InvalidCommitError(DeltaError):
    """The commit would break a rule of the protocol; found before anything was written."""

    code = "DELTA_INVALID_COMMIT"
    message = "the commit to {table} is not valid: {detail}"
    remedy = "report this: it is a bug in the writer of the files"
    table: str
    detail: str


@dataclass(kw_only=True, eq=False)
class MissingRecordCountError(DeltaError):
    """The statistics of an added file lack its number of rows. Spark: ``DELTA_ROW_ID_ASSIGNMENT_WITHOUT_STATS``.

    Attributes:
        path: The file, as in the log.
        needed_for: What the number is needed for.
    """

    code = "DELTA_MISSING_RECORD_COUNT"
    message = "{path!r}, to be added to {table}, has no numRecords in its statistics; it is required by {needed_for}"
    remedy = "write the file with statistics"
    table: str
    path: str
    needed_for: str


@dataclass(kw_only=True, eq=False)
class MultipleSourceRowsMatchedError(DeltaError):
    """More than one source row matches the same row of the table, so the result would be arbitrary.

    Spark: ``DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE``.
    """

    code = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    message = "{rows} row(s) of {table} are matched by more than one row of the source (for example {example})"
    remedy = "deduplicate the source by the merge condition first"
    table: str
    rows: int
    example: str


@dataclass(kw_only=True, eq=False)
class ExpectationFailedError(DeltaError):
    """A check on the staged result failed; nothing was committed.

    Attributes:
        expectation: The check, as SQL.
        rows: Number of rows that violate it; None for a check on the result as a whole.
        example: One such row, or the first row that the check's query returned, as text.
    """

    code = "DELTA_EXPECTATION_FAILED"
    message = "the expectation {expectation!r} failed on {table}"
    remedy = "correct the source or the expectation; the statement has committed nothing"
    table: str
    expectation: str
    rows: int | None
    example: str

    def claim(self) -> str:
        """What happened and where."""
        found = (
            f"expected one row with TRUE, found {self.example}"
            if self.rows is None
            else f"{self.rows} row(s), for example {self.example}"
        )
        return f"{super().claim()}: {found}"


@dataclass(kw_only=True, eq=False)
class RetentionTooShortError(DeltaError):
    """A vacuum with this retention could delete files that readers or writers still use."""

    code = "DELTA_RETENTION_TOO_SHORT"
    message = "the retention of {retention_hours} h for the vacuum of {table} is less than the minimum of {minimum_hours} h"
    remedy = (
        "use at least the table's delta.deletedFileRetentionDuration, or switch the check off: enforce_retention=False; on the "
        "command line --force; for DeltaTable.vacuum and VACUUM in SQL "
        "spark.databricks.delta.retentionDurationCheck.enabled=false in the session"
    )
    table: str
    retention_hours: float
    minimum_hours: float
