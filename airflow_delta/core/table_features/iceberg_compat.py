"""Tables that are also readable as Apache Iceberg tables: the versions of compatibility, and what their properties imply.

Protocol: PROTOCOL.md, "Iceberg Compatibility V1", "Iceberg Compatibility V2"; protocol_rfcs/iceberg-compat-v3.md and
    iceberg-writer-compat-v1.md. ``icebergWriterCompatV3`` has no specification yet: it follows Delta Kernel's
    ``IcebergWriterCompatV3MetadataValidatorAndUpdater``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_delta.core.actions import Metadata
from airflow_delta.core.schema.column_mapping import MODE_PROPERTY, MappingMode

COMPATIBLE: Final = {
    1: "delta.enableIcebergCompatV1",
    2: "delta.enableIcebergCompatV2",
    3: "delta.enableIcebergCompatV3",
}
"""The property that enables each version of Iceberg compatibility."""

WRITER_COMPATIBLE: Final = {2: "delta.enableIcebergWriterCompatV1", 3: "delta.enableIcebergWriterCompatV3"}
"""The property that lets Iceberg's own writers write to the table, by the compatibility version that it is based on."""

UNIVERSAL_FORMATS: Final = "delta.universalFormat.enabledFormats"
"""The formats, separated by commas, whose metadata is written after each commit."""

METADATA_FOLDER: Final = "metadata"
"""Directory of the Iceberg metadata, below the table's root."""

ROW_TRACKING_ENABLED: Final = "delta.enableRowTracking"


def compat_versions(configuration: Mapping[str, str]) -> tuple[int, ...]:
    """The versions that these properties enable; at most one in a valid table."""
    return tuple(version for version, name in COMPATIBLE.items() if _is_on(configuration, name))


def writer_compat_versions(configuration: Mapping[str, str]) -> tuple[int, ...]:
    """The compatibility versions of the enabled properties for Iceberg's writers."""
    return tuple(version for version, name in WRITER_COMPATIBLE.items() if _is_on(configuration, name))


def enables_compatibility(properties: Mapping[str, str]) -> bool:
    """Whether these properties, as spelled in a statement, enable any version."""
    names = {name.lower() for name in (*COMPATIBLE.values(), *WRITER_COMPATIBLE.values())}
    return any(name.lower() in names and value.lower() == "true" for name, value in properties.items())


def needs_nested_ids(configuration: Mapping[str, str]) -> bool:
    """Whether elements of lists, and keys and values of maps, need ids."""
    return any(version > 1 for version in compat_versions(configuration))


def numbers_physical_names(configuration: Mapping[str, str]) -> bool:
    """Whether the physical name of each column must be ``col-`` followed by its id."""
    return bool(writer_compat_versions(configuration))


def has_iceberg_metadata(metadata: Metadata) -> bool:
    """Whether Iceberg metadata is written beside Delta's log."""
    return "iceberg" in universal_formats(metadata.configuration)


def universal_formats(configuration: Mapping[str, str]) -> tuple[str, ...]:
    """The other formats in which the table must be readable, in lower case."""
    return tuple(name.strip().lower() for name in configuration.get(UNIVERSAL_FORMATS, "").split(",") if name.strip())


def with_implied_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties of a new table, with those that they imply unless they are set themselves."""
    implied: dict[str, str] = {}
    for version in writer_compat_versions(configuration):
        implied[COMPATIBLE[version]] = "true"
        implied[MODE_PROPERTY] = MappingMode.ID
    for version in compat_versions({**implied, **configuration}):
        implied.setdefault(MODE_PROPERTY, MappingMode.NAME)
        if version >= 3:  # noqa: PLR2004 (the first that numbers rows)
            implied[ROW_TRACKING_ENABLED] = "true"
    return {**configuration, **{name: str(value) for name, value in implied.items() if name not in configuration}}


def _is_on(configuration: Mapping[str, str], name: str) -> bool:
    return configuration.get(name, "").lower() == "true"
