"""CONVERT TO DELTA: turns a directory of Parquet files into a Delta table, in place.

Follows ``ConvertToDeltaCommand`` of Delta Spark, with these differences: statistics come from the footers, not from the rows;
partition values are parsed once for each directory, and written so that every reader accepts them; and all problems are
reported together.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import ADD_FILE, Metadata, Origin
from airflow_delta.core.actions.file_actions import STRING_MAP
from airflow_delta.core.data_files import StatisticsSelection, footer_statistics
from airflow_delta.core.data_files.legacy_calendar import is_in_legacy_calendar
from airflow_delta.core.data_files.reader import read_footer
from airflow_delta.core.errors import (
    CorruptDataFileError,
    DeltaError,
    InvalidPartitionValueError,
    NotConvertibleError,
    UnsupportedTypeError,
    UnwritablePartitionValueError,
)
from airflow_delta.core.operations.parquet_schema import footer_schema, merged_schema
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.operations.unneeded_files import other_tables
from airflow_delta.core.operations.vacuum_candidates import list_files_below_root
from airflow_delta.core.schema import DataType, DecimalType, StructField, StructType, parse_schema, schema_json, typed_values
from airflow_delta.core.schema.column_mapping import MODE_PROPERTY
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.schema.data_types import BOOLEAN, BYTE, DATE, INTEGER, LONG, SHORT, TIMESTAMP, TIMESTAMP_NTZ
from airflow_delta.core.schema.partition_values import serialize
from airflow_delta.core.schema.time_zones import zone_named
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.storage_failures import read_data
from airflow_delta.core.table_changes.definition import new_definition
from airflow_delta.core.table_changes.properties import requested
from airflow_delta.core.table_features.iceberg_compat import enables_compatibility
from airflow_delta.core.transaction.commit_result import CommitResult
from airflow_delta.core.transaction.operation import Operation

HIDDEN = r"(^|/)[_.][^/=]*(/|$)|(^|/)[_.][^/]*$"
"""Paths that never belong to a table: with a part that begins with ``_`` or a dot, except directories ``_column=value``."""

_THREADS = 8
_READ_AT_ONCE = 4096  # footers; only the statistics of each are kept
_PROBLEMS = 100  # most problems reported together
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_KEPT = "/:@!$&'()*+,;=~"
_WHOLE, _TIME = re.compile(r"[+-]?[0-9]+"), re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?")
_READ_BY_ALL = {
    **dict.fromkeys((BYTE, SHORT, INTEGER, LONG), _WHOLE),
    TIMESTAMP_NTZ: _TIME,
    BOOLEAN: re.compile("true|false", re.IGNORECASE),
    DATE: re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
}
"""Texts of partition values that are logged exactly as the directories spell them; Delta Spark does so with all."""
_WITHOUT_ZONE = re.compile(r"\s*[0-9-]{10}[T0-9:. ]*\s*")
_MINUTE = dt.timedelta(minutes=1)
_SQL_TYPES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertResult:
    """The outcome of a conversion.

    Attributes:
        version: Version of the table; -1 in a dry run without a table.
        files: Number of Parquet files that now belong to it, or would; 0 if it was a Delta table already.
        converted: Whether a commit was made.
        commit: The commit with the results of its hooks; None if no commit was made.
    """

    version: int
    files: int
    converted: bool = True
    commit: CommitResult | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Footer:
    """A file's columns and, if the schema was known, its statistics; or the problem found."""

    schema: StructType = field(default_factory=lambda: StructType(()))
    stats: str | None = None
    problem: str | None = None


def convert(
    log: TableLog,
    *,
    partition_schema: Mapping[str, str] | None,
    infer_partitions: bool,
    statistics: bool,
    properties: Mapping[str, str],
    time_zone: str = "UTC",
    dry_run: bool = False,
    origin: Origin,
) -> ConvertResult:
    """Commit version 0 of a table that consists of the Parquet files below its root; do nothing if it is a table already.

    Includes every file whose path has no hidden part (one that begins with ``_`` or a dot, unless it names a partition).

    Args:
        log: The log of the new table.
        partition_schema: The partition columns in the order of the directory levels, with their SQL types (``{"day":
            "date"}``).
        infer_partitions: Take the partition columns from the directory names instead, all as strings.
        statistics: Whether to take statistics from the footers.
        properties: Table properties.
        time_zone: Zone, as Spark names it, of the texts for ``timestamp`` that have none; ``timestamp_ntz`` has no zone.
        dry_run: Only check that the files can form a table.
        origin: The task run that requests it.

    Raises:
        NotConvertibleError: The files cannot form one table; lists all problems. Or a partition column has the type
            ``timestamp``, and the time zone is not known here.
        PathOutsideTableError: A file is a link to a file elsewhere.
        InvalidTablePropertyError: A property does not exist, or its value is invalid.
        InvalidTableDefinitionError: No table can have such columns.
        TableExistsError: Another writer has created a table there meanwhile.
    """
    if log.exists():
        return ConvertResult(version=log.snapshot().version, files=0, converted=False)
    uri = log.table_uri
    listed = list_files_below_root(log.store)
    tables = tuple(f"{directory.rstrip('/')}: it is a table itself" for directory in other_tables(listed["path"]))
    if tables:
        raise NotConvertibleError(table=uri, problems=tables)
    files = _parquet_files(listed)
    if not len(files):
        problem = "the directory has no Parquet files" if len(listed) else "the directory does not exist, or has no files"
        raise NotConvertibleError(table=uri, problems=(problem,), cure="name the directory that holds the Parquet files")
    directories = pc.replace_substring_regex(files["path"], "(?s)/?[^/]*$", "").combine_chunks().dictionary_encode()
    partitions = [_partition(directory) for directory in directories.dictionary.to_pylist()]
    fields = _partition_fields(uri, partitions, partition_schema, infer=infer_partitions)
    zone = _zone(uri, time_zone) if any(field.type == TIMESTAMP for field in fields) else dt.UTC
    _check_partitions(uri, directories.dictionary.to_pylist(), partitions, fields)
    wanted = requested(properties)
    if MODE_PROPERTY in wanted.configuration:
        problem, cure = (
            f"{MODE_PROPERTY} can only be set after the table exists",
            "set it after the conversion",
        )
        raise NotConvertibleError(table=uri, problems=(problem,), cure=cure)
    if enables_compatibility(wanted.configuration):
        problem = "its files lack the ids that Iceberg's readers need"
        cure = "leave the property out, or write the rows into a new table with the property"
        raise NotConvertibleError(table=uri, problems=(problem,), cure=cure)
    selection = StatisticsSelection.from_properties(wanted.configuration) if statistics else None
    names = tuple(field.name for field in fields)
    schema, stats = _Footers(uri, FileLocator.from_store(log.store), names, selection).read(files["path"])
    metadata = Metadata(
        id=str(uuid.uuid4()),
        schema_string=schema_json(_with_partitions(schema, fields)),
        partition_columns=names,
        configuration=wanted.configuration,
        created_time=log.clock(),
    )
    definition = new_definition(uri, metadata, wanted)
    if dry_run:
        return ConvertResult(version=-1, files=len(files), converted=False)
    maps = pa.array(_as_logged(partitions, fields, zone), STRING_MAP)
    columns = {
        "path": pa.array([quote(path, safe=_KEPT) for path in files["path"].to_pylist()], pa.string()),
        "partition_values": maps.take(directories.indices),
        "size": files["size"],
        "modification_time": files["modification_time"],
        "data_change": pa.repeat(pa.scalar(True), len(files)),
        "stats": stats,
    }
    adds = pa.table([columns.get(field.name, pa.nulls(len(files), field.type)) for field in ADD_FILE], schema=ADD_FILE)
    committed = log.create_transaction(definition.metadata, definition.protocol).commit(
        adds=adds,
        operation=Operation(
            name="CONVERT",
            parameters={
                "numFiles": len(files),
                "partitionedBy": list(names),
                "collectStats": statistics,
                "sourceFormat": "parquet",
            },
        ),
        metrics={"numConvertedFiles": len(files)},
        origin=origin,
        resolve_conflicts=False,
    )
    return ConvertResult(version=committed.version, files=len(files), commit=committed)


def _parquet_files(listed: pa.Table) -> pa.Table:
    """The files that are not hidden, sorted by path."""
    return listed.filter(pc.invert(pc.match_substring_regex(listed["path"], HIDDEN))).sort_by("path")


# -- partitions

_Partition = tuple[tuple[str, str | None], ...]
"""Columns and values in the name of a directory, in order."""


def _partition(directory: str) -> _Partition:
    """The columns and values of the parts ``name=value`` of a path, unescaped."""
    pairs = (part.partition("=") for part in directory.split("/") if "=" in part)
    return tuple((_unescaped(name), None if value in {_HIVE_NULL, ""} else _unescaped(value)) for name, _, value in pairs)


def _unescaped(text: str) -> str:
    """Reverses Hive's escaping, which covers only ASCII; Arrow, Polars and DuckDB escape other characters as UTF-8 bytes."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return re.sub("%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)


def _partition_fields(
    table: str, partitions: Iterable[_Partition], given: Mapping[str, str] | None, *, infer: bool
) -> tuple[StructField, ...]:
    """The partition columns. Raises ``NotConvertibleError`` for an invalid type."""
    if given is not None or not infer:
        return tuple(StructField(name, _type_named(table, name, text)) for name, text in (given or {}).items())
    first: _Partition = next(iter(partitions), ())
    return tuple(StructField(name, _type_named(table, name, "string")) for name, _ in first)


def _type_named(table: str, column: str, text: str) -> DataType:
    name = "".join(text.lower().split())
    name = f"{name}(10,0)" if name == "decimal" else _SQL_TYPES.get(name, name)
    field = {"name": column, "type": name, "nullable": True, "metadata": {}}
    try:
        kind = parse_schema(json.dumps({"type": "struct", "fields": [field]})).fields[0].type
        typed_values(pa.nulls(1, pa.string()), kind, column=column)
    except (DeltaError, ValueError, LookupError, NotImplementedError) as error:  # NotImplementedError: a cast that Arrow lacks
        raise NotConvertibleError(
            table=table, problems=(f"{column}: {text!r} is not a type for a partition column",)
        ) from error
    return kind


def _check_partitions(
    table: str, directories: Iterable[str], partitions: Sequence[_Partition], fields: tuple[StructField, ...]
) -> None:
    """Return if every directory names exactly these columns, with values of their types.

    Raises:
        NotConvertibleError: A directory does not.
    """
    problems: list[str] = []
    wanted = [field.name for field in fields]
    for directory, partition in zip(directories, partitions, strict=True):
        names = [name for name, _ in partition]
        if [name_key(name) for name in names] != [name_key(name) for name in wanted]:
            problems.append(f"{directory or '.'}: partitioned by {names}, expected {wanted}")
    if not problems:
        problems = list(_unreadable_values(partitions, fields))
    if problems:
        raise NotConvertibleError(table=table, problems=_limited(problems))


def _unreadable_values(partitions: Sequence[_Partition], fields: tuple[StructField, ...]) -> Iterator[str]:
    for position, column in enumerate(fields):
        for value in dict.fromkeys(partition[position][1] for partition in partitions):
            try:
                typed_values(pa.array([value], pa.string()), column.type, column=column.name)
            except InvalidPartitionValueError:
                yield f"{column.name}: {value!r} is not of the type {column.type}"


def _zone(table: str, name: str) -> dt.tzinfo:
    """The time zone. Raises ``NotConvertibleError`` if it is not known."""
    try:
        return zone_named(name)
    except ValueError as error:
        problem, cure = f"the time zone {name!r} is not known", "name a region, such as America/Los_Angeles, or an offset"
        raise NotConvertibleError(table=table, problems=(problem,), cure=cure) from error


def _as_logged(
    partitions: Sequence[_Partition], fields: tuple[StructField, ...], zone: dt.tzinfo
) -> list[list[tuple[str, str | None]]]:
    """The partitions as ``partitionValues`` of the log, as lists of items."""
    texts = [
        _log_texts({value for partition in partitions if (value := partition[position][1]) is not None}, column, zone)
        for position, column in enumerate(fields)
    ]
    return [
        [(field.name, known.get(value or "", value)) for field, known, (_, value) in zip(fields, texts, partition, strict=True)]
        for partition in partitions
    ]


def _log_texts(texts: Iterable[str], column: StructField, zone: dt.tzinfo) -> dict[str, str]:
    """Directory texts that some readers do not accept, mapped to the log's form: ``1.5`` of a ``decimal(5,2)`` to ``1.50``.

    All texts of timestamps are among them: without a zone, each reader would take its own.

    Protocol: PROTOCOL.md, "Partition Value Serialization".
    """
    kind = column.type
    if not (kind in _READ_BY_ALL or kind == TIMESTAMP or isinstance(kind, DecimalType)):
        return {}
    odd = [text for text in texts if not (kind in _READ_BY_ALL and _READ_BY_ALL[kind].fullmatch(text))]
    values = typed_values(pa.array(odd, pa.string()), kind, column=column.name)
    written = ((text, _log_text(text, value, kind, zone)) for text, value in zip(odd, values, strict=True))
    return {text: spelled for text, spelled in written if spelled is not None}


def _log_text(text: str, value: pa.Scalar, kind: DataType, zone: dt.tzinfo) -> str | None:
    """The value as the protocol writes it; None if its year lies outside of the range that Python supports."""
    try:
        found = value.as_py()
    except (OverflowError, ValueError):
        return None
    has_no_zone = kind == TIMESTAMP and _WITHOUT_ZONE.fullmatch(text)
    return _instant_text(found.replace(tzinfo=zone)) if has_no_zone else serialize(found, kind)


def _instant_text(local: dt.datetime) -> str | None:
    """A local time as an instant, as Java and Spark understand it.

    A time that clocks skip is moved on by as much as they are; of two instants of one local time, the earlier is meant.
    """
    try:
        return serialize(local, TIMESTAMP)
    except UnwritablePartitionValueError:  # in UTC its year is 0 or 10000, which has no text
        offset = local.utcoffset() or dt.timedelta()
        rest = -offset % _MINUTE  # offsets of the years before 1900 have seconds, which readers do not accept
        return (local.replace(tzinfo=None) + rest).replace(tzinfo=dt.timezone(offset + rest)).isoformat(timespec="microseconds")


def _limited(problems: list[str]) -> tuple[str, ...]:
    more = len(problems) - _PROBLEMS
    return (*problems[:_PROBLEMS], f"and {more} more") if more > 0 else tuple(problems)


def _with_partitions(schema: StructType, fields: tuple[StructField, ...]) -> StructType:
    """The files' columns, followed by the partition columns; a partition column that is also in the files keeps its place."""
    partitions = StructType(fields)
    own = tuple(partitions.find(field.name) or field for field in schema.fields)
    return StructType((*own, *(field for field in fields if schema.find(field.name) is None)))


# -- footers


@dataclass(frozen=True, slots=True)
class _Footers:
    """Reads the footers of many files concurrently; only a few are in memory at once."""

    table: str
    locate: FileLocator
    partition_columns: tuple[str, ...]
    selection: StatisticsSelection | None

    def read(self, paths: pa.ChunkedArray) -> tuple[StructType, pa.ChunkedArray]:
        """The schema that fits all files, and their statistics (JSON texts; NULL when not wanted).

        Statistics depend on the schema. They are computed as if all files had the schema of the first; if that is wrong, the
        footers are read again.

        Raises:
            NotConvertibleError: A file is not Parquet, or types are incompatible.
        """
        first = self._read(paths[0].as_py(), None).schema
        merged, stats, problems = StructType(()), [], []
        known: set[StructType] = set()
        for files, footers in self._all(paths, first):
            stats.append(pa.array([footer.stats for footer in footers], pa.string()))
            for path, footer in zip(files, footers, strict=True):
                if footer.problem:
                    problems.append(f"{path}: {footer.problem}")
                elif footer.schema not in known:
                    known.add(footer.schema)
                    merged, differences = merged_schema(merged, footer.schema)
                    problems += [f"{path}: {difference}" for difference in differences]
        if problems:
            raise NotConvertibleError(table=self.table, problems=_limited(problems))
        if self.selection and merged != first:
            stats = [pa.array([footer.stats for footer in footers], pa.string()) for _, footers in self._all(paths, merged)]
        return merged, pa.chunked_array(stats, pa.string())

    def _all(self, paths: pa.ChunkedArray, schema: StructType) -> Iterator[tuple[list[str], list[_Footer]]]:
        with ThreadPoolExecutor(_THREADS) as pool:
            for start in range(0, len(paths), _READ_AT_ONCE):
                files = paths.slice(start, _READ_AT_ONCE).to_pylist()
                yield files, list(pool.map(lambda path: self._read(path, schema), files))

    def _read(self, path: str, schema: StructType | None) -> _Footer:
        """Read the footer of a file: its columns, and statistics for the columns of ``schema``."""
        place = self.locate(quote(path))
        try:
            footer = read_data(lambda: read_footer(*place), table=self.table, file=path)
            columns = footer_schema(footer.metadata)
        except (pa.ArrowException, CorruptDataFileError, UnsupportedTypeError) as error:
            return _Footer(problem=error.claim() if isinstance(error, DeltaError) else str(error))
        if self.selection is None or schema is None:
            return _Footer(schema=columns)
        if is_in_legacy_calendar(footer.metadata.metadata or {}):  # its date and timestamp bounds may be in another calendar
            return _Footer(schema=columns, stats=json.dumps({"numRecords": footer.metadata.num_rows}, separators=(",", ":")))
        own = schema.without(self.partition_columns)
        stats = footer_statistics(footer.metadata, own, self.selection, unreadable=footer.unreadable)
        return _Footer(schema=columns, stats=stats)
