"""Errors of operations on DataFrames, subclasses of ``airflow_delta.core.errors.DeltaError``."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors import DeltaError, InvalidStatementError, UnsupportedWriterFeatureError


def first_line(error: Exception) -> str:
    """The first line of Spark's message that is not blank; the text of a ``ParseException`` begins with an empty line."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


@dataclass(kw_only=True, eq=False)
class SparkFeatureMissingError(DeltaError):
    """This version of Spark lacks a feature; found before anything ran.

    Attributes:
        feature: What was requested.
        version: The version of Spark.
        needed: The first version that has the feature.
    """

    code = "DELTA_SPARK_FEATURE_MISSING"
    message = "{feature} needs Spark {needed} or newer; this is Spark {version}"
    remedy = "run it with a newer Spark"
    feature: str
    version: str
    needed: str


@dataclass(kw_only=True, eq=False)
class SparkConnectUnsupportedError(DeltaError):
    """The operation needs a classic session, whose JVM this process can access; found before anything was written.

    Attributes:
        feature: What was requested.
        instead: What to do instead.
    """

    code = "DELTA_SPARK_CONNECT_UNSUPPORTED"
    message = "{feature} is not possible over Spark Connect"
    remedy = "{instead}"
    feature: str
    instead: str


@dataclass(kw_only=True, eq=False)
class DataSourceWriteError(UnsupportedWriterFeatureError):
    """The table needs features on write that ``format("delta")`` cannot enforce, while every other write here does."""

    code = "DELTA_DATA_SOURCE_WRITE"
    message = 'format("delta") cannot write {table}: it needs {features}, which this way of writing does not enforce'
    remedy = (
        "write the rows with delta_writer(df) of airflow_delta.spark, which enforces every constraint of the table, or with an "
        "INSERT of airflow_delta.spark.sql"
    )


@dataclass(kw_only=True, eq=False)
class SourceUnreadableError(DeltaError):
    """The source of a statement does not exist, or its query does not fit its columns."""

    code = "DELTA_SOURCE_UNREADABLE"
    message = "the source {source!r} cannot be read: {detail}"
    remedy = "check the path, the content of the file, the names of columns and views, and the SQL"
    source: str
    detail: str


@dataclass(kw_only=True, eq=False)
class FunctionFailedError(DeltaError):
    """The function of a statement raised an error, on the driver or in a Python worker; nothing was committed.

    Attributes:
        function: Name of the function.
        file: Where the error was raised: the innermost line in the function's own file.
        error: The class of the error.
    """

    code = "DELTA_FUNCTION_FAILED"
    message = "{function} raised {error} at {file}:{line}: {detail}"
    remedy = (
        "correct the function, or install what it imports for Spark's driver, and for executors where it is needed "
        "there (airflow-delta pack); nothing was committed"
    )
    function: str
    file: str
    line: int
    error: str
    detail: str


@dataclass(kw_only=True, eq=False)
class FunctionResultError(DeltaError):
    """The function of a statement did not return rows; nothing was committed.

    Attributes:
        function: Name of the function.
        file: Where it is defined.
        found: The class of the value that it returned.
    """

    code = "DELTA_FUNCTION_RESULT"
    message = "expected {function} ({file}:{line}) to return a DataFrame of Spark, found {found}"
    remedy = "return the rows, such as spark.createDataFrame(pandas_frame); nothing was committed"
    function: str
    file: str
    line: int
    found: str


@dataclass(kw_only=True, eq=False)
class StagedFilesError(DeltaError):
    """The staged files do not contain what Spark reported to have written; nothing was committed."""

    code = "DELTA_STAGED_FILES_DIFFER"
    retryable = True
    message = "the new files of {table} do not hold exactly the rows of the statement: {detail}"
    remedy = (
        "run it again; if it fails again, look for a job, a lifecycle rule or a Hadoop committer that moves or deletes files "
        "in the table's directory"
    )
    table: str
    detail: str


@dataclass(kw_only=True, eq=False)
class ExpectationUnreadableError(DeltaError):
    """An expectation is not valid SQL on the staged rows; nothing was committed."""

    code = "DELTA_EXPECTATION_UNREADABLE"
    message = "the expectation {expectation!r} cannot be checked: {detail}"
    remedy = "correct its SQL; the statement has committed nothing"
    expectation: str
    detail: str


@dataclass(kw_only=True, eq=False)
class TableRuleUnreadableError(DeltaError):
    """A constraint, invariant, default or generated column of the table is not valid Spark SQL, so no row can be written."""

    code = "DELTA_TABLE_RULE_UNREADABLE"
    message = "the table's rule {rule} cannot be evaluated: {detail}"
    remedy = "drop the constraint or correct the column; the statement has committed nothing"
    rule: str
    detail: str


@dataclass(kw_only=True, eq=False)
class TableRuleRefusedError(TableRuleUnreadableError):
    """A rule of the table calls a function that no rule needs and that may do harm; it was not evaluated."""

    code = "DELTA_TABLE_RULE_REFUSED"
    message = "the rule {rule} of {table} was not evaluated, because it contains {detail}"
    remedy = (
        "find out who wrote it (airflow-delta history); then drop the constraint or default, or write it with built-in, "
        "deterministic functions of Spark that see one row"
    )
    table: str


@dataclass(kw_only=True, eq=False)
class ReservedColumnError(DeltaError):
    """Columns have names that statements use for their own added columns; nothing was read or written.

    Attributes:
        of: Whose columns they are: the table's, or those of a MERGE's source.
        columns: Names of the columns.
    """

    code = "DELTA_RESERVED_COLUMN"
    message = "expected no column whose name begins with __airflow_delta_, found in {of}: {columns}"
    remedy = (
        "give it another name: in a query with AS, in a table with ALTER TABLE ... RENAME COLUMN (which needs column mapping, "
        "delta.columnMapping.mode = name), or drop it there"
    )
    of: str
    columns: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class StreamChangeError(DeltaError):
    """A commit removes rows that a stream may have delivered already. Spark: ``DELTA_SOURCE_TABLE_IGNORE_CHANGES``.

    Attributes:
        version: Version of the commit.
        operation: Its operation.
    """

    code = "DELTA_SOURCE_TABLE_IGNORE_CHANGES"
    message = "version {version} of {table} ({operation}) removes rows, which a stream of new rows cannot represent"
    remedy = (
        "skip such commits with skipChangeCommits=true, take the files they write with ignoreChanges=true, or start anew "
        "with another checkpoint"
    )
    table: str
    version: int
    operation: str


@dataclass(kw_only=True, eq=False)
class StreamSchemaChangedError(DeltaError):
    """The table's columns changed while a stream ran. Spark: ``DELTA_SCHEMA_CHANGED``."""

    code = "DELTA_SCHEMA_CHANGED"
    retryable = True
    message = "version {version} of {table} changes the columns that the stream began with"
    remedy = "start the query again: it goes on where it is, with the new columns"
    table: str
    version: int


@dataclass(kw_only=True, eq=False)
class StreamLogLostError(DeltaError):
    """Commits that a stream has not read yet were cleaned up.

    Attributes:
        version: The version to be read next.
        earliest: The earliest version whose commit still exists.
    """

    code = "DELTA_STREAM_LOG_LOST"
    message = "the stream has to read version {version} of {table}, but its log reaches back to {earliest} only"
    remedy = "start anew with another checkpoint; let delta.logRetentionDuration be longer than the stream may stand still"
    table: str
    version: int
    earliest: int


@dataclass(kw_only=True, eq=False)
class StreamTableReplacedError(DeltaError):
    """The stream's table was replaced by another one. Spark: ``DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE``."""

    code = "DELTA_STREAM_TABLE_REPLACED"
    message = "{table} is not the table that the stream's checkpoint is about: it was created again"
    remedy = "start anew with another checkpoint"
    table: str


@dataclass(kw_only=True, eq=False)
class ArgumentError(InvalidStatementError, TypeError, ValueError):
    """A function was called with an argument of the wrong type; nothing was done. delta-spark: TypeError or ValueError."""

    code = "DELTA_ARGUMENT"
    message = "the call of {statement} is not valid: {detail}"
    remedy = "correct the argument"


@dataclass(kw_only=True, eq=False)
class ExpressionNotTextError(DeltaError):
    """A condition or value whose meaning cannot safely be written as SQL text: a Python function, a lambda."""

    code = "DELTA_EXPRESSION_NOT_TEXT"
    message = "the expression {expression!r} cannot be written as SQL text that surely means the same"
    remedy = (
        "pass the condition or value as SQL text; register a Python function with spark.udf.register and call it by that name; "
        "where it is text already, give columns that share a name different names"
    )
    expression: str


@dataclass(kw_only=True, eq=False)
class TableNameUnsupportedError(DeltaError):
    """A table is given by a catalog name, but no catalog is configured, or only a path is allowed here."""

    code = "DELTA_TABLE_NAME_UNSUPPORTED"
    message = "{name!r} names a table of a catalog; tables are found by their path here"
    remedy = (
        "use the path: DeltaTable.forPath(spark, path), delta.`path`, location(path), load(path) or save(path); "
        "or name a catalog in AIRFLOW_DELTA_CATALOG, as docs/catalogs.md shows"
    )
    name: str


@dataclass(kw_only=True, eq=False)
class UnsuitableColumnsError(DeltaError):
    """OPTIMIZE cannot cluster by these columns. Spark: ``DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS`` and others.

    Attributes:
        reasons: All reasons.
    """

    code = "DELTA_OPTIMIZE_COLUMNS"
    message = "the rows of {table} cannot be clustered as requested: {reasons}"
    remedy = "name columns of the table that have statistics; give others statistics with delta.dataSkippingStatsColumns"
    table: str
    reasons: tuple[str, ...]
