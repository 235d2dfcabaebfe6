"""The table features known here, and when a table really uses them.

Protocol: PROTOCOL.md, "Table Features", "Valid Feature Names in Table Features".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.schema import (
    ArrayType,
    DataType,
    MappingMode,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    all_fields,
    mapping_mode,
    parse_schema,
    without_column_mapping,
)
from airflow_delta.core.schema.char_columns import CHAR_VARCHAR, in_step
from airflow_delta.core.schema.collations import COLLATIONS
from airflow_delta.core.schema.unknown_types import columns_of_unknown_types

FEATURES_READER_VERSION, FEATURES_WRITER_VERSION = 3, 7
"""From these versions on, a protocol lists its features; below, the version implies them."""

COLUMN_MAPPING = "columnMapping"
REDIRECTS = ("redirectReaderWriter", "redirectReaderWriter-preview", "redirectWriterOnly", "redirectWriterOnly-preview")
"""Features whose property, named like the feature, redirects to another table."""
DELETION_VECTORS = "deletionVectors"
CLUSTERING = "delta.clustering"
"""The metadata domain of the feature ``clustering``."""

CATALOG_MANAGED = frozenset({"catalogManaged", "catalogOwned-preview"})
"""The feature of catalog-managed tables, and its name during preview."""

Use = Callable[[Metadata], bool]


def _always(_metadata: Metadata) -> bool:
    """For a feature that affects every table that lists it."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A known feature, and when it changes what readers or writers must do.

    Attributes:
        reader_version: Lowest reader version that implies it; None if no version does.
        writer_version: Lowest writer version that implies it; None if no version does.
        for_readers: Whether readers must support it, too, so that both lists contain it.
        in_use: Whether a table with this metadata uses the feature, rather than merely allows it.
        needed_by: Whether a protocol must list the feature for this metadata; None if that is the same as ``in_use``.
        requires: Features that a protocol must list with it.
    """

    name: str
    in_use: Use = _always
    needed_by: Use | None = None
    reader_version: int | None = None
    writer_version: int | None = None
    for_readers: bool = False
    requires: tuple[str, ...] = ()

    @property
    def shows_in_metadata(self) -> bool:
        """Whether metadata alone shows if a table uses the feature."""
        return self.in_use is not _always

    def is_needed(self, metadata: Metadata) -> bool:
        """Whether the protocol of a table with this metadata must list the feature."""
        return (self.needed_by or self.in_use)(metadata)


def _has_field(key: str) -> Use:
    """Whether any column or nested field has this metadata key."""
    return lambda metadata: f'"{key}"' in metadata.schema_string and any(key in field.metadata for field in _fields(metadata))


def _fields(metadata: Metadata) -> Iterator[StructField]:
    return all_fields(parse_schema(metadata.schema_string))


def _has_property(prefix: str) -> Use:
    return lambda metadata: any(key.startswith(prefix) for key in metadata.configuration)


def _sets(key: str) -> Use:
    return lambda metadata: key in metadata.configuration


def _is_enabled(key: str) -> Use:
    return lambda metadata: metadata.configuration.get(key, "").lower() == "true"


def _holds_type(name: str) -> Use:
    """Whether any column or nested field has the primitive type with this name."""
    wanted = PrimitiveType(name)
    return lambda metadata: (
        f'"{name}"' in metadata.schema_string and any(wanted in _items(field.type) for field in _fields(metadata))
    )


def _items(data_type: DataType) -> Iterator[DataType]:
    """The type itself, and the types of elements, keys and values inside of it, without entering structs."""
    match data_type:
        case ArrayType(element_type=element):
            yield from _items(element)
        case MapType(key_type=key, value_type=value):
            yield from _items(key)
            yield from _items(value)
        case _:
            yield data_type


def _holds_unknown_type(metadata: Metadata) -> bool:
    """Whether a column, or a type inside of it, has a type that only its feature defines."""
    return bool(columns_of_unknown_types(parse_schema(metadata.schema_string)))


def _has_column_mapping(metadata: Metadata) -> bool:
    return metadata.configuration.get("delta.columnMapping.mode", "none").lower() != "none"


def _wants_v2_checkpoints(metadata: Metadata) -> bool:
    return metadata.configuration.get("delta.checkpointPolicy", "classic").lower() == "v2"


def _never(_metadata: Metadata) -> bool:
    """For a feature that only a statement about the table adds."""
    return False


_CHANGED_TYPES = _has_field("delta.typeChanges")
_WIDENING = _is_enabled("delta.enableTypeWidening")
_VARIANT = _holds_type("variant")
_SHREDDED = _is_enabled("delta.enableVariantShredding")
_COLLATED = _has_field(COLLATIONS)

FEATURES = {
    feature.name: feature
    for feature in (
        Feature(name="appendOnly", writer_version=2, needed_by=_is_enabled("delta.appendOnly")),
        Feature(name="invariants", writer_version=2, in_use=_has_field("delta.invariants")),
        Feature(name="checkConstraints", writer_version=3, in_use=_has_property("delta.constraints.")),
        Feature(name="changeDataFeed", writer_version=4, in_use=_is_enabled("delta.enableChangeDataFeed")),
        Feature(name="generatedColumns", writer_version=4, in_use=_has_field("delta.generationExpression")),
        Feature(name=COLUMN_MAPPING, reader_version=2, writer_version=5, for_readers=True, in_use=_has_column_mapping),
        Feature(name="identityColumns", writer_version=6, in_use=_has_field("delta.identity.start")),
        Feature(name="allowColumnDefaults", in_use=_has_field("CURRENT_DEFAULT")),
        Feature(name="inCommitTimestamp", in_use=_is_enabled("delta.enableInCommitTimestamps")),
        Feature(name=DELETION_VECTORS, for_readers=True, needed_by=_is_enabled("delta.enableDeletionVectors")),
        Feature(name="typeWidening", for_readers=True, in_use=_CHANGED_TYPES, needed_by=_WIDENING),
        Feature(name="typeWidening-preview", for_readers=True, in_use=_CHANGED_TYPES, needed_by=_never),
        Feature(name="variantType", for_readers=True, in_use=_VARIANT),
        Feature(name="variantType-preview", for_readers=True, in_use=_VARIANT, needed_by=_never),
        Feature(name="variantShredding", for_readers=True, needed_by=_SHREDDED, requires=("variantType",)),
        Feature(name="variantShredding-preview", for_readers=True, needed_by=_never),
        Feature(name="v2Checkpoint", for_readers=True, needed_by=_wants_v2_checkpoints),
        Feature(name="domainMetadata", needed_by=_never),
        # Even if the feature is only supported and not enabled, writers assign row ids.
        Feature(name="rowTracking", needed_by=_is_enabled("delta.enableRowTracking"), requires=("domainMetadata",)),
        Feature(name="clustering", needed_by=_never, requires=("domainMetadata",)),
        Feature(name="checkpointProtection", needed_by=_never),
        Feature(name="collations", in_use=_COLLATED, requires=("domainMetadata",)),
        Feature(name="collations-preview", in_use=_COLLATED, needed_by=_never),
        Feature(name="materializePartitionColumns", needed_by=_never),
        Feature(name="timestampNtz", for_readers=True, needed_by=_holds_type("timestamp_ntz")),
        *(
            Feature(name=name, for_readers=True, needed_by=_never, requires=("inCommitTimestamp",))
            for name in sorted(CATALOG_MANAGED)
        ),
        Feature(name="vacuumProtocolCheck", for_readers=True, needed_by=_never),
        *(
            Feature(name=name, for_readers=True, in_use=_holds_unknown_type, needed_by=_never)
            for name in ("geospatial", "geospatial-preview", "timestampNanos")
        ),
        *(
            Feature(name=name, for_readers="Reader" in name, in_use=_sets(f"delta.{name}"), needed_by=_never)
            for name in REDIRECTS
        ),
        Feature(name="icebergCompatV1", in_use=_is_enabled("delta.enableIcebergCompatV1"), requires=("columnMapping",)),
        Feature(name="icebergCompatV2", in_use=_is_enabled("delta.enableIcebergCompatV2"), requires=("columnMapping",)),
        Feature(
            name="icebergCompatV3",
            in_use=_is_enabled("delta.enableIcebergCompatV3"),
            requires=("columnMapping", "rowTracking"),
        ),
        *(
            Feature(name=name, in_use=_is_enabled(f"delta.enableI{name[1:]}"), requires=(base,))
            for name, base in (("icebergWriterCompatV1", "icebergCompatV2"), ("icebergWriterCompatV3", "icebergCompatV3"))
        ),
    )
}


def reader_features(protocol: Protocol) -> frozenset[str]:
    """The features that a reader of the table must support, whether listed or implied."""
    if protocol.min_reader_version >= FEATURES_READER_VERSION:
        return protocol.reader_features or frozenset()
    version = protocol.min_reader_version
    return frozenset(
        feature.name for feature in FEATURES.values() if feature.reader_version and feature.reader_version <= version
    )


def writer_features(protocol: Protocol) -> frozenset[str]:
    """The features that a writer of the table must support, whether listed or implied."""
    if protocol.min_writer_version >= FEATURES_WRITER_VERSION:
        return protocol.writer_features or frozenset()
    version = protocol.min_writer_version
    return frozenset(
        feature.name for feature in FEATURES.values() if feature.writer_version and feature.writer_version <= version
    )


def column_mapping_of(metadata: Metadata, protocol: Protocol) -> MappingMode:
    """How columns are matched in data files; ``none`` if the protocol does not support column mapping.

    Raises:
        InvalidSchemaError: The mode is unknown.
    """
    return mapping_mode(metadata.configuration) if COLUMN_MAPPING in reader_features(protocol) else MappingMode.NONE


def columns_of(metadata: Metadata, protocol: Protocol | None = None) -> StructType:
    """The columns as readers see them: ids and physical names only if column mapping is on.

    A schema copied from a table with column mapping may have them although the mode is ``none``. The declared type of a
    ``char`` inside a struct is adapted to the struct's present fields.

    Args:
        metadata: The table's metadata.
        protocol: The table's protocol; when None, the properties alone show whether column mapping is on.

    Raises:
        InvalidSchemaError: The schema is invalid, or the mode is unknown.
    """
    schema = parse_schema(metadata.schema_string)
    if CHAR_VARCHAR in metadata.schema_string:
        schema = StructType(tuple(map(in_step, schema.fields)))
    mode = mapping_mode(metadata.configuration) if protocol is None else column_mapping_of(metadata, protocol)
    return without_column_mapping(schema) if mode is MappingMode.NONE else schema
