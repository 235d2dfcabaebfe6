"""The table features that are known here, and when a table really uses one.

Protocol: PROTOCOL.md, "Table Features", "Valid Feature Names in Table Features".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.schema import ArrayType, DataType, MapType, StructField, StructType, parse_schema

FEATURES_READER_VERSION, FEATURES_WRITER_VERSION = 3, 7
"""From these versions on a protocol lists its features; below them the version implies the features."""

DELETION_VECTORS = "deletionVectors"

Use = Callable[[Metadata], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A feature of which we know when it changes what readers or writers must do.

    Attributes:
        reader_version: Lowest reader version that implies it; None where none does.
        writer_version: Lowest writer version that implies it; None where none does.
        in_use: Whether the table uses it, and not merely allows it.
    """

    name: str
    in_use: Use = lambda _metadata: True
    reader_version: int | None = None
    writer_version: int | None = None


def _has_field(key: str) -> Use:
    """Whether any column, nested ones included, carries this metadata."""
    return lambda metadata: any(key in field.metadata for field in _all_fields(parse_schema(metadata.schema_string)))


def _all_fields(data_type: DataType) -> Iterator[StructField]:
    match data_type:
        case StructType(fields):
            for field in fields:
                yield field
                yield from _all_fields(field.type)
        case ArrayType(element_type=element):
            yield from _all_fields(element)
        case MapType(key_type=key, value_type=value):
            yield from _all_fields(key)
            yield from _all_fields(value)


def _has_property(prefix: str) -> Use:
    return lambda metadata: any(key.startswith(prefix) for key in metadata.configuration)


def _is_enabled(key: str) -> Use:
    return lambda metadata: metadata.configuration.get(key, "").lower() == "true"


def _holds_type(prefix: str) -> Use:
    """Whether any column, nested ones included, is of a primitive type with this name."""
    return lambda metadata: f'"{prefix}' in metadata.schema_string


def _has_column_mapping(metadata: Metadata) -> bool:
    return metadata.configuration.get("delta.columnMapping.mode", "none").lower() != "none"


FEATURES = {
    each.name: each
    for each in (
        Feature(name="appendOnly", writer_version=2),
        Feature(name="invariants", writer_version=2, in_use=_has_field("delta.invariants")),
        Feature(name="checkConstraints", writer_version=3, in_use=_has_property("delta.constraints.")),
        Feature(name="changeDataFeed", writer_version=4, in_use=_is_enabled("delta.enableChangeDataFeed")),
        Feature(name="generatedColumns", writer_version=4, in_use=_has_field("delta.generationExpression")),
        Feature(name="columnMapping", reader_version=2, writer_version=5, in_use=_has_column_mapping),
        Feature(name="identityColumns", writer_version=6, in_use=_has_field("delta.identity.start")),
        Feature(name="allowColumnDefaults", in_use=_has_field("CURRENT_DEFAULT")),
        Feature(name="inCommitTimestamp", in_use=_is_enabled("delta.enableInCommitTimestamps")),
        Feature(name=DELETION_VECTORS),
        Feature(name="typeWidening", in_use=_has_field("delta.typeChanges")),
        Feature(name="typeWidening-preview", in_use=_has_field("delta.typeChanges")),
        Feature(name="variantType", in_use=_holds_type("variant")),
        Feature(name="variantType-preview", in_use=_holds_type("variant")),
        Feature(name="variantShredding"),
        Feature(name="variantShredding-preview"),
        Feature(name="v2Checkpoint"),
        Feature(name="domainMetadata"),
        Feature(name="rowTracking"),  # where it is merely supported, writers number rows too
        Feature(name="clustering"),
        Feature(name="checkpointProtection"),
        Feature(name="materializePartitionColumns"),
        Feature(name="timestampNtz"),
        Feature(name="vacuumProtocolCheck"),
    )
}


def reader_features(protocol: Protocol) -> frozenset[str]:
    """The features that a reader of the table must know, listed or implied."""
    if protocol.min_reader_version >= FEATURES_READER_VERSION:
        return protocol.reader_features or frozenset()
    version = protocol.min_reader_version
    return frozenset(each.name for each in FEATURES.values() if each.reader_version and each.reader_version <= version)


def writer_features(protocol: Protocol) -> frozenset[str]:
    """The features that a writer of the table must know, listed or implied."""
    if protocol.min_writer_version >= FEATURES_WRITER_VERSION:
        return protocol.writer_features or frozenset()
    version = protocol.min_writer_version
    return frozenset(each.name for each in FEATURES.values() if each.writer_version and each.writer_version <= version)
