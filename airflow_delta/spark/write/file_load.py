"""The rows of the files that a search of COPY INTO has found, and the record of these files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql.types import StringType, StructField, StructType

from airflow_delta.core.actions import SetTransaction
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, LoadedFilesLostError
from airflow_delta.core.operations.loaded_files import APP_ID, LoadedFiles, read_loaded_files, write_loaded_files
from airflow_delta.core.operations.new_files import NewFiles
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import CopyIntoStatement
from airflow_delta.core.statements.copy_into import TEXT_FORMATS
from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from airflow_delta.spark.errors import SourceUnreadableError
from airflow_delta.spark.io.data_paths import hadoop_uri, literal_pattern
from airflow_delta.spark.io.jvm_scan import listing_session
from airflow_delta.spark.io.sql_expression import sql_expression
from airflow_delta.spark.jvm import Py4JJavaError, analyzed, in_session, is_connect
from airflow_delta.spark.schema_conversion import quoted, to_spark
from airflow_delta.spark.statement.file_content import content_failure
from airflow_delta.spark.statement.sources import OpenSource, readable

OPERATION = "COPY INTO"
RESCUED_ROWS = "numRescuedRows"

_READ_ALL = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
"""Files skipped by Spark would count as loaded, so session settings must not enable that."""

_ANY_FOLDER = "recursiveFileLookup"
"""Option by which folders give no values."""

_WITH_FOOTERS = ("orc", "parquet")
"""Formats whose columns Spark otherwise takes from one of the files, which loses what only others have."""

_COLON_IN_NAME = r":[^/]*$"
_NO_CHECKSUMS = {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}
"""Hadoop looks for a checksum file beside each local file, and fails if the file's name contains a colon."""


@dataclass(slots=True, kw_only=True, eq=False)
class FileLoad:
    """The ``Load`` of the files that a search has found.

    Attributes:
        statement: The statement.
        log: The table's log.
        new: The files found.
        loaded: The files that the table had recorded at the time of the search.
        target: The table's version at that time; None if the load creates the table.
        named: The records that commits before and after this load reference.
    """

    statement: CopyIntoStatement
    log: DeltaLog
    new: NewFiles
    loaded: LoadedFiles
    target: Snapshot | None
    named: tuple[LoadedFiles, ...] = field(default=())

    @property
    def operation(self) -> Operation:
        """The operation as the history shows it."""
        wanted = self.statement
        parameters = {"path": wanted.path, "format": wanted.format, "pattern": wanted.pattern, "reload": wanted.reload or None}
        return Operation(name=OPERATION, parameters=parameters)

    @property
    def observed(self) -> Mapping[str, Column]:
        """Counts the rows that do not fit the columns."""
        column = self.statement.rescued_column
        return {} if column is None else {RESCUED_ROWS: F.count(F.col(quoted(column)))}

    @property
    def metrics(self) -> Mapping[str, int]:
        """Metrics of the search."""
        return {
            "numSourceFiles": len(self.new.files),
            "numSourceBytes": self.new.size,
            "numKnownFiles": self.new.known,
            "numChangedFiles": self.new.changed,
            "numWaitingFiles": self.new.waiting,
        }

    def open(self, spark: SparkSession) -> OpenSource:
        """The rows of the new files."""
        target = StructType() if self.target is None else to_spark(self.target.schema)
        return OpenSource(frame=_read(spark, self.statement, self.new, target))

    def progress(self, transaction: OptimisticTransaction) -> SetTransaction:
        """Write a record that adds the files to those of the version that the commit is based on."""
        head = transaction.transaction_version(APP_ID)
        is_newest = head == self.loaded.head
        before = self.loaded if is_newest else remembered_files(self.log, self.statement, transaction.snapshot)
        now = self.log.clock()
        after = write_loaded_files(self.log.store, before, self.new.loaded_at(now))
        self.named = (before, after)
        if after.head is None:
            raise RuntimeError("a load that remembers nothing")
        return SetTransaction(app_id=APP_ID, version=after.head, last_updated=now)

    def is_known_in(self, newest: Snapshot | None) -> bool:
        """Whether a version has already recorded one of the files."""
        known = read_loaded_files(self.log.store, newest).positions(self.new.places)
        return bool(pc.any(pc.is_valid(known)).as_py())


def remembered_files(log: DeltaLog, statement: CopyIntoStatement, version: Snapshot | None) -> LoadedFiles:
    """The files that a version has recorded; empty if that is lost and ``reload`` is set. Raises as ``read_loaded_files``."""
    try:
        return read_loaded_files(log.store, version)
    except LoadedFilesLostError:
        if not statement.reload:
            raise
        return LoadedFiles()


@contextmanager
def typed_content_errors() -> Iterator[None]:
    """Convert Spark's error for a file's content to one that names the file and the reason.

    Raises:
        SourceUnreadableError: A file's content is broken, or does not fit.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        failure = content_failure(error, "correct it, or name a rescued_column, which keeps such rows")
        if failure is None:
            raise
        raise failure from error


def _read(spark: SparkSession, statement: CopyIntoStatement, new: NewFiles, target: StructType) -> DataFrame:
    """The rows of the new files for a table with the columns ``target``, if any."""
    root, paths = hadoop_uri(statement.path).rstrip("/"), new.files["path"]
    partitions = _partition_columns(statement, new)
    uris = [f"{root}/{path}" for path in paths.to_pylist()]
    if is_connect(spark):  # a Spark Connect server has no option against path patterns
        uris = [_as_pattern(uri, statement) for uri in uris]
    with readable(statement.path):
        reader = listing_session(spark, len(uris)).read.format(statement.format)
        reader = reader.options(**_options(statement, are_partitioned=bool(partitions)))
        if scheme_of(statement.path) == "file" and pc.any(pc.match_substring_regex(paths, _COLON_IN_NAME)).as_py():
            reader = reader.options(**_NO_CHECKSUMS)
        texts = {name_key(field.name) for field in target.fields if field.dataType == StringType()}
        rows = _with_columns(reader, statement, uris, texts.intersection(partitions)).load(uris)
        if not rows.columns:
            raise SourceUnreadableError(source=statement.path, detail="the new files show no columns; name them by schema")
        if statement.select:
            rows = rows.select(*map(sql_expression, statement.select))
        rescued = statement.rescued_column
        if rescued is not None and rescued.lower() not in map(str.lower, rows.columns):
            raise InvalidStatementError(statement=OPERATION, detail=f"select leaves out the rescued_column {rescued!r}")
        return in_session(analyzed(rows), spark)


def _partition_columns(statement: CopyIntoStatement, new: NewFiles) -> tuple[str, ...]:
    """The columns of the folders ``column=value`` in which all new files lie, in lower case.

    Raises:
        SourceUnreadableError: Some lie in folders of other columns, or in none: rows would get NULL for the columns of others.
    """
    if any(name.lower() == _ANY_FOLDER.lower() and value.lower() == "true" for name, value in statement.options.items()):
        return ()
    found = new.partitionings
    if len(found) > 1:
        examples = " and ".join(
            f"{path} (in folders of {', '.join(columns) or 'no column'})" for columns, path in sorted(found.items())[:2]
        )
        detail = (
            f"expected all files in folders of the same columns, found {examples}; move them, load them one by one with a "
            f"pattern, or leave the folders' values out by options={{{_ANY_FOLDER!r}: 'true'}}"
        )
        raise SourceUnreadableError(source=statement.path, detail=detail)
    return next(iter(found), ())


def _as_pattern(uri: str, statement: CopyIntoStatement) -> str:
    pattern = literal_pattern(uri)
    if pattern != uri and ":" in uri[len(hadoop_uri(statement.path).rstrip("/")) :]:
        detail = f"Hadoop reads no pattern with a colon, and over Spark Connect a path with one of *?[]{{}} is a pattern: {uri}"
        raise SourceUnreadableError(source=statement.path, detail=f"{detail}; rename it, or use a classic session")
    return pattern


def _options(statement: CopyIntoStatement, *, are_partitioned: bool) -> dict[str, str]:
    """The reader's options: the user's, preceded by defaults, and followed by those that may not be changed."""
    is_text, rescued = statement.format.lower() in TEXT_FORMATS, statement.rescued_column
    options = dict(_READ_ALL)
    if is_text and rescued is None:
        options["mode"] = "FAILFAST"
    if are_partitioned:
        options["basePath"] = hadoop_uri(statement.path)
    if statement.format.lower() in _WITH_FOOTERS and not statement.schema:
        options["mergeSchema"] = "true"
    options |= statement.options
    if not are_partitioned:  # also keeps Spark from reading all files once for each path that looks like a glob
        options[_ANY_FOLDER] = "true"
    if rescued is not None:
        options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": rescued}
    return {**options, "__globPaths__": "false"}  # a path is a path, whatever characters it contains


def _with_columns(
    reader: DataFrameReader, statement: CopyIntoStatement, uris: list[str], texts: Collection[str]
) -> DataFrameReader:
    """The reader, set to read the files with these columns.

    Args:
        reader: The reader.
        statement: The statement.
        uris: The files.
        texts: Columns of folders, in lower case, that the table stores as texts: Spark would take ``007`` for a number.
    """
    rescued, is_csv = statement.rescued_column, statement.format.lower() == "csv"
    if statement.schema:
        reader = reader.schema(statement.schema if rescued is None else f"{statement.schema}, {quoted(rescued)} STRING")
        texts = texts and {*texts} - {name_key(field.name) for field in StructType.fromDDL(statement.schema).fields}
    if not texts and (statement.schema or (rescued is None and not is_csv)):
        return reader
    columns = reader.load(uris).schema
    given = {option.lower() for option in statement.options}
    names_columns = is_csv and not statement.schema
    if names_columns and "enforceschema" not in given and not _has_numbered_names(columns):
        reader = reader.option("enforceSchema", "false")  # otherwise columns are matched by position, whatever the headers say
    if rescued is not None and rescued not in columns.names:
        columns = columns.add(rescued, "string")
    return reader.schema(StructType([_as_text(field) if name_key(field.name) in texts else field for field in columns.fields]))


def _as_text(field: StructField) -> StructField:
    return StructField(field.name, StringType(), field.nullable, field.metadata)


def _has_numbered_names(columns: StructType) -> bool:
    """Whether Spark may have named a CSV column by position: headers that are empty or not unique never match."""
    return any(name.endswith(str(place)) for place, name in enumerate(columns.names))
