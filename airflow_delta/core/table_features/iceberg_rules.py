"""The rules of Iceberg compatibility: what violates them, and how to fix it.

Protocol: PROTOCOL.md, "Writer Requirements for IcebergCompatV1", "... V2"; the RFCs that ``iceberg_compat`` names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.errors import IcebergCompatError
from airflow_delta.core.schema import (
    ArrayType,
    DecimalType,
    MappingMode,
    MapType,
    StructType,
    all_fields,
    field_id,
    mapping_mode,
    parse_schema,
    physical_name,
)
from airflow_delta.core.schema.column_mapping import MODE_PROPERTY, assigned_ids, nested_ids, nested_paths
from airflow_delta.core.schema.data_types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    INTEGERS,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    DataType,
    all_types,
)
from airflow_delta.core.schema.schema_json import parse_type
from airflow_delta.core.table_features.feature import DELETION_VECTORS, FEATURES, writer_features
from airflow_delta.core.table_features.iceberg_compat import (
    COMPATIBLE,
    ROW_TRACKING_ENABLED,
    UNIVERSAL_FORMATS,
    WRITER_COMPATIBLE,
    compat_versions,
    has_iceberg_metadata,
    writer_compat_versions,
)

_DELETION_VECTORS_ENABLED = "delta.enableDeletionVectors"
_PRIMITIVES = {*INTEGERS, FLOAT, DOUBLE, STRING, BINARY, BOOLEAN, TIMESTAMP, TIMESTAMP_NTZ, DATE}
_WIDENINGS = {(BYTE, SHORT), (BYTE, INTEGER), (BYTE, LONG), (SHORT, INTEGER), (SHORT, LONG), (INTEGER, LONG), (FLOAT, DOUBLE)}
_LITERAL = re.compile(
    r"\s*(?:[+-]?\s*(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?[a-z]{0,2}|null|true|false|(?:date|timestamp|timestamp_ntz|x)?\s*'(?:[^'\\]|''|\\.)*'"
    r"|\"(?:[^\"\\]|\\.)*\")\s*",
    re.IGNORECASE | re.DOTALL,
)
_ITSELF = frozenset({"appendOnly", "columnMapping", "domainMetadata", "vacuumProtocolCheck", "v2Checkpoint"})
_FOR_ICEBERG_WRITERS: Mapping[int, frozenset[str]] = {
    2: _ITSELF
    | {"icebergCompatV2", "icebergWriterCompatV1", "inCommitTimestamp", "clustering", "timestampNtz"}
    | {"typeWidening", "typeWidening-preview", "catalogManaged", "catalogOwned-preview"},
}
_FOR_ICEBERG_WRITERS = {
    **_FOR_ICEBERG_WRITERS,
    3: _FOR_ICEBERG_WRITERS[2] - {"icebergCompatV2", "icebergWriterCompatV1"}
    | {"icebergCompatV3", "icebergWriterCompatV3", DELETION_VECTORS, "rowTracking"}
    | {"variantType", "variantType-preview", "variantShredding", "variantShredding-preview"},
}
"""Features allowed in a table into which Iceberg's own writers write."""
_WRITER_FEATURES = {2: "icebergWriterCompatV1", 3: "icebergWriterCompatV3"}
_IF_UNUSED = frozenset({"invariants", "changeDataFeed", "checkConstraints", "identityColumns", "generatedColumns"})
"""Features that it may list, because an older protocol implied them, but not use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A violated rule.

    Attributes:
        property: The property that requires the rule.
        detail: What is wrong.
        cure: What to do about it.
    """

    property: str
    detail: str
    cure: str


def check_iceberg_compat(table: str, metadata: Metadata, protocol: Protocol, before: Metadata | None = None) -> None:
    """Return if a table with this metadata follows the rules that its properties enable.

    Args:
        table: URI of the table, for the error.
        metadata: The table's metadata.
        protocol: The table's protocol.
        before: The metadata of the previous version; None for a new table.

    Raises:
        IcebergCompatError: It does not; the error names the property, every violated rule, and the remedies.
    """
    raise_for(table, [*violations(metadata, protocol), *(partition_violations(metadata, before) if before else ())])


def check_iceberg_change(table: str, metadata: Metadata, before: Metadata) -> None:
    """Return if an existing table may be changed like this. Arguments and errors: as of ``check_iceberg_compat``."""
    raise_for(table, list(change_violations(metadata, before)))


def raise_for(table: str, found: list[Violation]) -> None:
    """Raise an ``IcebergCompatError`` if there are violations."""
    if found:
        raise IcebergCompatError(
            table=table,
            property=", ".join(dict.fromkeys(violation.property for violation in found)),
            reasons=tuple(violation.detail for violation in found),
            cure="; ".join(dict.fromkeys(violation.cure for violation in found)),
        )


def violations(metadata: Metadata, protocol: Protocol) -> Iterator[Violation]:
    """Every rule that metadata and protocol violate; files are not checked."""
    features = writer_features(protocol)
    versions = [version for version in compat_versions(metadata.configuration) if f"icebergCompatV{version}" in features]
    if len(versions) > 1:
        names = " and ".join(COMPATIBLE[version] for version in versions)
        yield Violation(property=COMPATIBLE[versions[-1]], detail=f"{names} are true", cure="set only one of them to true")
    schema = parse_schema(metadata.schema_string) if versions else StructType(())
    for version in versions:
        for detail, cure in _broken(version, schema, metadata, protocol):
            yield Violation(property=COMPATIBLE[version], detail=detail, cure=cure)
    for version in writer_compat_versions(metadata.configuration):
        if _WRITER_FEATURES[version] not in features:
            continue
        for detail, cure in _broken_for_writers(version, parse_schema(metadata.schema_string), metadata, protocol):
            yield Violation(property=WRITER_COMPATIBLE[version], detail=detail, cure=cure)
    if has_iceberg_metadata(metadata) and not versions:
        yield Violation(
            property=UNIVERSAL_FORMATS,
            detail="no version of Iceberg compatibility is enabled",
            cure=f"set {COMPATIBLE[2]} to true in the same statement, or leave iceberg out of {UNIVERSAL_FORMATS}",
        )


def partition_violations(metadata: Metadata, before: Metadata) -> Iterator[Violation]:
    """A partitioned table cannot be repartitioned by other columns in Iceberg."""
    if before.partition_columns and before.partition_columns != metadata.partition_columns:
        old, new = (f"({', '.join(columns)})" for columns in (before.partition_columns, metadata.partition_columns))
        for version in compat_versions(metadata.configuration):
            yield Violation(
                property=COMPATIBLE[version],
                detail=f"the table is partitioned by {old}, and would be by {new}",
                cure="keep the partition columns, or make another table",
            )


def change_violations(metadata: Metadata, before: Metadata) -> Iterator[Violation]:
    """The rules that a change of an existing table violates."""
    was, becomes = (set(writer_compat_versions(each.configuration)) for each in (before, metadata))
    for version in sorted(was ^ becomes):
        verb = "enabled" if version in becomes else "disabled"
        yield Violation(
            property=WRITER_COMPATIBLE[version],
            detail=f"it cannot be {verb} on a table that exists",
            cure="set it when the table is created or replaced",
        )
    if was & becomes:
        old = {field_id(field): field.type for field in all_fields(parse_schema(before.schema_string))}
        for field in all_fields(parse_schema(metadata.schema_string)):
            if _keys(field.type) != _keys(old.get(field_id(field), field.type)):
                for version in sorted(was & becomes):
                    yield Violation(
                        property=WRITER_COMPATIBLE[version],
                        detail=f"a struct that is a key of {field.name} would change",
                        cure="leave the keys of maps as they are",
                    )


def _keys(data_type: DataType) -> list[DataType]:
    """The structs that are keys of maps in a column, not entering fields of structs."""
    match data_type:
        case ArrayType(element):
            return _keys(element)
        case MapType(key, value):
            return [*([key] if isinstance(key, StructType) else []), *_keys(value)]
        case _:
            return []


def _broken(version: int, schema: StructType, metadata: Metadata, protocol: Protocol) -> Iterator[tuple[str, str]]:
    configuration = metadata.configuration
    if mapping_mode(configuration) is MappingMode.NONE:
        yield "columns are not mapped", f"set {MODE_PROPERTY} to name in a statement of its own first"
    if version == 1 and DELETION_VECTORS in writer_features(protocol):
        yield "the table supports deletion vectors", "drop the feature deletionVectors first"
    if version <= 2 and _is_on(configuration, _DELETION_VECTORS_ENABLED):  # noqa: PLR2004 (the third allows them)
        yield "deletion vectors are enabled", f"set {_DELETION_VECTORS_ENABLED} to false"
    if version >= 3 and not _is_on(configuration, ROW_TRACKING_ENABLED):  # noqa: PLR2004
        yield "row tracking is not enabled", f"set {ROW_TRACKING_ENABLED} to true first"
    yield from _wrong_types(version, schema)
    yield from _wrong_widenings(schema)
    if version > 1 and mapping_mode(configuration) is not MappingMode.NONE:
        yield from _wrong_ids(schema)
    if version >= 3:  # noqa: PLR2004
        yield from _wrong_defaults(schema)


def _wrong_types(version: int, schema: StructType) -> Iterator[tuple[str, str]]:
    for column in schema.fields:
        for kind in all_types(column.type):
            name = str(kind) if not isinstance(kind, ArrayType | MapType) else type(kind).__name__.removesuffix("Type").lower()
            if not _is_allowed(version, kind):
                better = f", or enable {COMPATIBLE[2]}" if version == 1 and kind != VOID else ""
                better = f", or enable {COMPATIBLE[3]}" if kind == VARIANT else better
                yield f"{column.name} holds values of type {name}", f"leave the column out{better}"
                break


def _is_allowed(version: int, kind: DataType) -> bool:
    if isinstance(kind, ArrayType | MapType):
        return version > 1
    if isinstance(kind, StructType | DecimalType) or kind in _PRIMITIVES:
        return True
    if version == 1:
        return kind != VOID
    return version >= 3 and (kind == VARIANT or str(kind).startswith(("geometry", "geography")))  # noqa: PLR2004


def _wrong_widenings(schema: StructType) -> Iterator[tuple[str, str]]:
    for field in all_fields(schema):
        changes = field.metadata.get("delta.typeChanges", [])
        for change in changes if isinstance(changes, list) else []:
            said = (change.get("fromType"), change.get("toType")) if isinstance(change, dict) else (None, None)
            if not _is_widening_of_iceberg(*said):
                yield (
                    f"the type of {field.name} was changed from {said[0]} to {said[1]}, which Iceberg does not do",
                    "write the rows into a new table",
                )


def _is_widening_of_iceberg(before: object, after: object) -> bool:
    try:
        old, new = parse_type(before), parse_type(after)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return new.scale == old.scale and new.precision > old.precision
    return (old, new) in _WIDENINGS


def _wrong_ids(schema: StructType) -> Iterator[tuple[str, str]]:
    again = "enable the property by SET TBLPROPERTIES, which gives the ids"
    for field in all_fields(schema):
        if field_id(field) is None or set(nested_paths(field)) - nested_ids(field).keys():
            yield f"{field.name}, or what is inside of it, has no id", again
    twice = sorted(number for number, count in Counter(assigned_ids(schema)).items() if count > 1)
    if twice:
        yield f"the ids {', '.join(map(str, twice[:5]))} are given twice", "write the rows into a new table"


def _wrong_defaults(schema: StructType) -> Iterator[tuple[str, str]]:
    for field in schema.fields:
        sql = field.metadata.get("CURRENT_DEFAULT")
        if sql is not None and not _LITERAL.fullmatch(str(sql)):
            yield f"the default of {field.name} ({sql!s:.100}) is not a literal", "give the column a literal as its default"


def _broken_for_writers(version: int, schema: StructType, metadata: Metadata, protocol: Protocol) -> Iterator[tuple[str, str]]:
    if version not in compat_versions(metadata.configuration):
        yield f"{COMPATIBLE[version]} is not true", f"set {COMPATIBLE[version]} to true too"
    if mapping_mode(metadata.configuration) is not MappingMode.ID:
        yield f"{MODE_PROPERTY} is not id", f"set {MODE_PROPERTY} to id when the table is made"
    for field in all_fields(schema):
        if physical_name(field) != f"col-{field_id(field)}":
            yield f"the physical name of {field.name} is not col-{field_id(field)}", "write the rows into a new table"
            break
    yield from _narrow_types(schema)
    features = writer_features(protocol)
    foreign = features - _FOR_ICEBERG_WRITERS[version] - _IF_UNUSED
    used = {name for name in features & _IF_UNUSED if FEATURES[name].in_use(metadata)}
    for name in sorted(foreign | used):
        yield f"the table has the feature {name}, which Iceberg's writers do not keep", f"make the table without {name}"


def _narrow_types(schema: StructType) -> Iterator[tuple[str, str]]:
    for column in schema.fields:
        if narrow := next((kind for kind in all_types(column.type) if kind in (BYTE, SHORT)), None):
            yield f"{column.name} holds values of type {narrow}", "make it an integer"


def _is_on(configuration: Mapping[str, str], name: str) -> bool:
    return configuration.get(name, "").lower() == "true"
