"""The rules for a table's schema, partition columns and clustering columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from airflow_delta.core.actions import Metadata
from airflow_delta.core.data_files.column_lists import parse_names
from airflow_delta.core.data_files.indexed_columns import COLUMNS
from airflow_delta.core.data_files.statistics_selection import StatisticsSelection
from airflow_delta.core.data_files.stored_values import has_stored_form
from airflow_delta.core.errors import InvalidTableDefinitionError
from airflow_delta.core.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MappingMode,
    MapType,
    StructField,
    StructType,
    mapping_mode,
    parse_schema,
)
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.schema.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGERS,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
)
from airflow_delta.core.schema.unknown_types import is_unknown
from airflow_delta.core.table_changes.column_path import ColumnPath, folded, path_text
from airflow_delta.core.table_changes.columns import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_START,
    IDENTITY_STEP,
)
from airflow_delta.core.table_changes.expressions import columns_in
from airflow_delta.core.transaction.row_tracking import ENABLED_PROPERTY, SUSPENDED_PROPERTY

FORBIDDEN_SIGNS = " ,;{}()\n\t="
"""Characters that a column name may only contain with column mapping."""

MAX_CLUSTERING_COLUMNS = 4

_CHANGE_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
_PARTITION_TYPES = {*INTEGERS, FLOAT, DOUBLE, BOOLEAN, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ}
ORDERED_TYPES = {*INTEGERS, FLOAT, DOUBLE, STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ}
"""Types whose statistics have bounds, which clustering needs; decimals have bounds, too."""


def definition_reasons(metadata: Metadata) -> Iterator[str]:
    """The reasons why the metadata is invalid, one line each."""
    yield from _text_reasons(metadata)
    schema = parse_schema(metadata.schema_string)
    is_mapped = mapping_mode(metadata.configuration) is not MappingMode.NONE
    yield from _schema_reasons(schema, (), is_mapped=is_mapped)
    yield from _partition_reasons(schema, metadata.partition_columns)
    yield from _rule_reasons(schema, metadata.partition_columns)
    yield from _change_feed_reasons(schema, metadata)
    yield from _row_tracking_reasons(metadata)
    yield from _bloom_filter_reasons(schema, metadata)


def check_definition(table: str, metadata: Metadata, before: Metadata | None = None) -> None:
    """Return if the metadata is valid.

    Args:
        table: URI of the table, for the error.
        metadata: The new metadata.
        before: The present metadata; problems that it already has, which other engines allowed, are ignored.

    Raises:
        InvalidTableDefinitionError: The metadata is invalid; the error lists every reason.
    """
    known = set(definition_reasons(before)) if before else set()
    reasons = tuple(reason for reason in definition_reasons(metadata) if reason not in known)
    if reasons:
        raise InvalidTableDefinitionError(table=table, reasons=reasons)


def check_clustering(table: str, metadata: Metadata, columns: Sequence[ColumnPath]) -> None:
    """Return if the table can be clustered by these columns.

    Protocol: PROTOCOL.md, "Clustered Table".

    Raises:
        InvalidTableDefinitionError: It cannot; the error lists every reason.
    """
    reasons = tuple(_clustering_reasons(metadata, columns)) if columns else ()
    if reasons:
        raise InvalidTableDefinitionError(table=table, reasons=reasons)


def _text_reasons(metadata: Metadata) -> Iterator[str]:
    """Reasons about names and descriptions that are not valid text: no reader could open the table."""
    for name, said in (("name", metadata.name), ("description", metadata.description)):
        if not isinstance(said, str | None):
            yield f"expected a text as {name}, found {said!r}"


def _schema_reasons(data_type: DataType, path: ColumnPath, *, is_mapped: bool) -> Iterator[str]:
    match data_type:
        case StructType(fields):
            yield from _name_reasons(data_type, path, is_mapped=is_mapped)
            for field in fields:
                yield from _schema_reasons(field.type, (*path, field.name), is_mapped=is_mapped)
        case ArrayType(element):
            yield from _schema_reasons(element, (*path, "element"), is_mapped=is_mapped)
        case MapType(key, value):
            yield from _schema_reasons(key, (*path, "key"), is_mapped=is_mapped)
            yield from _schema_reasons(value, (*path, "value"), is_mapped=is_mapped)
        case _ if data_type == VOID:
            yield f"{path_text(path)} has the type void"
        case _ if is_unknown(data_type):
            yield f"{path_text(path)} is {data_type}, which is no type of Delta Lake, or one that is not known here"


def _name_reasons(struct: StructType, path: ColumnPath, *, is_mapped: bool) -> Iterator[str]:
    for name, count in Counter(name_key(member) for member in struct.names).items():
        if count > 1:
            yield f"the name {path_text((*path, name))} occurs more than once"
    for name in struct.names:
        if not name:
            yield f"a column of {path_text(path) or 'the table'} has no name"
        if not is_mapped and any(sign in name for sign in FORBIDDEN_SIGNS):
            yield f"without column mapping, {path_text((*path, name))!r} cannot contain any of {FORBIDDEN_SIGNS!r}"
    if path and not struct.fields:
        yield f"{path_text(path)} is a struct without members"


def _partition_reasons(schema: StructType, partition_columns: Sequence[str]) -> Iterator[str]:
    for name in partition_columns:
        field = next((candidate for candidate in schema.fields if candidate.name == name), None)
        if field is None:
            yield f"the partition column {name} is not among the columns"
        elif not (isinstance(field.type, DecimalType) or field.type in _PARTITION_TYPES):
            yield f"{name} is {field.type}, which cannot partition a table"
    if len(set(partition_columns)) < len(partition_columns):
        yield "a partition column is named twice"
    if partition_columns and not schema.without(tuple(partition_columns)).fields:
        yield "all columns are partition columns"


def _rule_reasons(schema: StructType, partition_columns: Sequence[str]) -> Iterator[str]:
    """Reasons about columns that have a default, are generated, or are identity columns."""
    for field in schema.fields:
        rules = [key for key in (CURRENT_DEFAULT, GENERATION_EXPRESSION, IDENTITY_START) if key in field.metadata]
        if len(rules) > 1:
            yield f"{field.name} has more than one of {', '.join(rules)}"
        if GENERATION_EXPRESSION in field.metadata:
            yield from _generation_reasons(schema, field)
        if IDENTITY_START in field.metadata:
            if field.type != LONG:
                yield f"the identity column {field.name} is {field.type}, not bigint"
            if field.metadata.get(IDENTITY_STEP) == 0:
                yield f"the identity column {field.name} has the step 0"
            if field.name in partition_columns:
                yield f"the identity column {field.name} is a partition column"


def _generation_reasons(schema: StructType, field: StructField) -> Iterator[str]:
    columns = columns_in(str(field.metadata[GENERATION_EXPRESSION]))
    if columns is None:
        yield f"the expression of the generated column {field.name} is not valid SQL"
        return
    for name in sorted({path[0] for path in columns}):
        source = schema.find(name)
        if source is None:
            yield f"the generated column {field.name} needs {name}, which is not among the columns"
        elif GENERATION_EXPRESSION in source.metadata:
            yield f"the generated column {field.name} needs {name}, which is generated too"


def _change_feed_reasons(schema: StructType, metadata: Metadata) -> Iterator[str]:
    if metadata.configuration.get("delta.enableChangeDataFeed", "").lower() == "true":
        for name in _CHANGE_FEED_COLUMNS:
            if schema.find(name):
                yield f"{name} is a column of the change data feed"


def _row_tracking_reasons(metadata: Metadata) -> Iterator[str]:
    if all(metadata.configuration.get(name, "").lower() == "true" for name in (ENABLED_PROPERTY, SUSPENDED_PROPERTY)):
        yield f"{ENABLED_PROPERTY} and {SUSPENDED_PROPERTY} are both true; set one of them to false"


def _bloom_filter_reasons(schema: StructType, metadata: Metadata) -> Iterator[str]:
    for path in parse_names(metadata.configuration.get(COLUMNS, "")):
        field = schema.find(path[0]) if len(path) == 1 else None
        if field is None:
            yield f"the column {path_text(path)}, which {COLUMNS} names, is not among the columns at the top"
        elif field.name in metadata.partition_columns:
            yield f"{field.name} is a partition column, which needs no Bloom filter"
        elif not has_stored_form(field):
            yield f"{field.name} cannot have a Bloom filter: only integers, texts, bytes, dates, times and decimals can"


def _clustering_reasons(metadata: Metadata, columns: Sequence[ColumnPath]) -> Iterator[str]:
    if metadata.partition_columns:
        yield "a table that is partitioned cannot be clustered"
    if len(columns) > MAX_CLUSTERING_COLUMNS:
        yield f"there are {len(columns)} clustering columns, more than {MAX_CLUSTERING_COLUMNS}"
    if len({folded(column) for column in columns}) < len(columns):
        yield "a clustering column is named twice"
    schema = parse_schema(metadata.schema_string)
    leaves = {folded(path): kind for path, kind in StatisticsSelection(indexed_columns=-1).leaves(schema)}
    selection = StatisticsSelection.from_properties(metadata.configuration)
    with_statistics = {folded(path) for path, _ in selection.leaves(schema)}
    for path in columns:
        kind = leaves.get(folded(path))
        if kind is None:
            yield f"the clustering column {path_text(path)} is not among the columns"
        elif not (kind in ORDERED_TYPES or isinstance(kind, DecimalType)):
            yield f"{path_text(path)} is {kind}, which has no min/max statistics to cluster by"
        elif folded(path) not in with_statistics:
            yield f"{path_text(path)} has no statistics, which clustering needs (see delta.dataSkippingStatsColumns)"
