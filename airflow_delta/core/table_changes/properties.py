"""Table properties in statements: checks values, and converts names to Delta's spelling.

Keys that do not start with ``delta.`` are the user's own and stay unchanged, except for ``airflow_delta.bloomFilter.*``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from airflow_delta.core.actions import Protocol
from airflow_delta.core.data_files.indexed_columns import (
    COLUMNS,
    FALSE_POSITIVES,
    ITEMS,
    LEAST_FALSE_POSITIVES,
    MOST_COLUMNS,
    MOST_FALSE_POSITIVES,
    MOST_ITEMS,
    false_positives,
)
from airflow_delta.core.errors import InvalidTablePropertyError
from airflow_delta.core.foreign_values import lone_surrogate, printable
from airflow_delta.core.table_changes.column_path import parse_path
from airflow_delta.core.table_changes.expressions import CONSTRAINT_PREFIX
from airflow_delta.core.table_changes.refusal import Refusal
from airflow_delta.core.table_features.feature import (
    CATALOG_MANAGED,
    FEATURES,
    FEATURES_READER_VERSION,
    FEATURES_WRITER_VERSION,
    writer_features,
)
from airflow_delta.core.transaction.in_commit_timestamps import ENABLED as TIMESTAMPS_ENABLED
from airflow_delta.core.transaction.table_properties import AN_INTERVAL, interval_milliseconds

_PREFIX = "delta."
_OWN_PREFIX = "airflow_delta.bloomfilter."
_FEATURE_PREFIX = "delta.feature."
_READER_VERSION, _WRITER_VERSION = "delta.minReaderVersion", "delta.minWriterVersion"
_IGNORED = "delta.ignoreProtocolDefaults"

Check = Callable[[str], str | None]
"""Returns what is wrong with a value; None if it is valid."""


def _boolean(value: str) -> str | None:
    return None if value.lower() in {"true", "false"} else "it must be true or false"


def _number(lowest: int, highest: int | None = None) -> Check:
    def check(value: str) -> str | None:
        text = value.strip().removeprefix("-")
        number = int(value) if text.isascii() and text.isdecimal() and len(text) < 19 else None  # noqa: PLR2004 (64 bits)
        if number is not None and number >= lowest and (highest is None or number <= highest):
            return None
        return f"it must be a number from {lowest}" + ("" if highest is None else f" to {highest}")

    return check


def _interval(value: str) -> str | None:
    return AN_INTERVAL if interval_milliseconds(value) is None else None


def _one_of(*values: str) -> Check:
    return lambda value: None if value.lower() in map(str.lower, values) else f"it must be {' or '.join(values)}"


def _column_names(value: str) -> str | None:
    try:
        for name in split_names(value):
            parse_path(name)
    except Refusal as refusal:
        return refusal.detail
    return None


def _indexed_columns(value: str) -> str | None:
    count = len(split_names(value))
    return _column_names(value) if count <= MOST_COLUMNS else f"it must name at most {MOST_COLUMNS} columns, found {count}"


def _size(value: str) -> str | None:
    digits = value.strip().lower().removesuffix("b").rstrip("kmgt")
    return None if digits.isdecimal() and digits.isascii() and int(digits) else "it must be a size such as 134217728 or 128mb"


def _rate(value: str) -> str | None:
    if false_positives(value) is None:
        return f"it must be a rate from {LEAST_FALSE_POSITIVES} to {MOST_FALSE_POSITIVES}, such as 0.001 or 1e-5"
    return None


def _any(_value: str) -> str | None:
    return None


_BOOLEANS = (
    "appendOnly",
    "autoOptimize",
    "autoOptimize.optimizeWrite",
    "checkpoint.writeStatsAsJson",
    "checkpoint.writeStatsAsStruct",
    "compatibility.symlinkFormatManifest.enabled",
    "enableChangeDataCapture",
    "enableChangeDataFeed",
    "enableDeletionVectors",
    "enableExpiredLogCleanup",
    "enableFullRetentionRollback",
    "enableIcebergCompatV1",
    "enableIcebergCompatV2",
    "enableIcebergCompatV3",
    "enableIcebergWriterCompatV1",
    "enableIcebergWriterCompatV3",
    "enableInCommitTimestamps",
    "enableRowTracking",
    "enableTypeWidening",
    "enableVariantShredding",
    "ignoreProtocolDefaults",
    "randomizeFilePrefixes",
    "rowTrackingSuspended",
    "writePartitionColumnsToParquet",
)
_INTERVALS = (
    "checkpointRetentionDuration",
    "deletedFileRetentionDuration",
    "dropFeatureTruncateHistory.retentionDuration",
    "logRetentionDuration",
    "sampleRetentionDuration",
    "setTransactionRetentionDuration",
)
_CHECKS: dict[str, Check] = {
    **dict.fromkeys(_BOOLEANS, _boolean),
    **dict.fromkeys(_INTERVALS, _interval),
    "autoOptimize.autoCompact": _one_of("true", "false", "auto", "legacy"),
    "checkpointInterval": _number(1),
    "checkpointPolicy": _one_of("classic", "v2"),
    "columnMapping.mode": _one_of("none", "name", "id"),
    "dataSkippingNumIndexedCols": _number(-1),
    "dataSkippingStatsColumns": _column_names,
    "dataSkippingStringPrefixLength": _number(0),
    "isolationLevel": _one_of("Serializable"),
    "minReaderVersion": _number(1, FEATURES_READER_VERSION),
    "minWriterVersion": _number(1, FEATURES_WRITER_VERSION),
    "parquet.compression.codec": _one_of("none", "uncompressed", "snappy", "gzip", "zstd", "lz4", "lz4_raw"),
    "parquet.format.version": _one_of("1.0.0", "2.12.0"),
    "randomPrefixLength": _number(1),
    "targetFileSize": _size,
    "universalFormat.enabledFormats": _one_of("", "iceberg"),
}
_OWN_CHECKS: dict[str, Check] = {COLUMNS: _indexed_columns, FALSE_POSITIVES: _rate, ITEMS: _number(1, MOST_ITEMS)}
_KNOWN = {name.lower(): (name, check) for name, check in _OWN_CHECKS.items()}
_KNOWN |= {f"{_PREFIX}{name}".lower(): (f"{_PREFIX}{name}", check) for name, check in _CHECKS.items()}

INTERNAL = frozenset(
    {
        "delta.columnMapping.maxColumnId",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.inCommitTimestampEnablementVersion",
        "delta.requireCheckpointProtectionBeforeVersion",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
        "delta.rowTracking.materializedRowIdColumnName",
    }
)
"""Properties that users cannot set, as only Delta itself does."""

_INTERNAL = {name.lower(): name for name in INTERNAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedProperties:
    """What properties in a statement request.

    Attributes:
        configuration: The properties to store in the metadata, in the order given.
        features: Features to be supported (``delta.feature.<name> = supported``).
        reader_version: The least reader version (``delta.minReaderVersion``).
        writer_version: The least writer version (``delta.minWriterVersion``).
    """

    configuration: Mapping[str, str] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    reader_version: int = 1
    writer_version: int = 1


def check_timestamps_kept(protocol: Protocol, configuration: Mapping[str, str]) -> None:
    """Return if a table with this protocol may have these properties; properties that are not given count as unchanged.

    Raises:
        InvalidTablePropertyError: The table is catalog-managed, and would lose in-commit timestamps.
    """
    value = configuration.get(TIMESTAMPS_ENABLED, "true")
    if CATALOG_MANAGED & writer_features(protocol) and value.lower() != "true":
        detail = "a table that a catalog manages must keep in-commit timestamps; leave the property out"
        raise InvalidTablePropertyError(name=TIMESTAMPS_ENABLED, value=value, detail=detail)


def required_by_catalog(identity: Mapping[str, str], replaced: Protocol | None) -> dict[str, str]:
    """The properties that are kept, whatever a statement makes of the table at this place.

    Args:
        identity: The table properties that identify the table in the catalog that manages it.
        replaced: The protocol of the existing table; None without one.
    """
    is_managed = replaced is not None and CATALOG_MANAGED & writer_features(replaced)
    return {**identity, TIMESTAMPS_ENABLED: "true"} if is_managed else dict(identity)


def check_texts(properties: Mapping[str, str]) -> None:
    """Return if names and values are valid UTF-8 texts, else raise ``InvalidTablePropertyError``."""
    for name, value in properties.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            detail = f"expected texts as name and value, found {name!r}: {value!r}"
            raise InvalidTablePropertyError(name=str(name), value=str(value), detail=detail)
        if found := lone_surrogate(name) or lone_surrogate(value):
            detail = f"expected texts that UTF-8 can hold, found the lone surrogate {found}"
            raise InvalidTablePropertyError(name=printable(name), value=printable(value), detail=detail)


def requested(properties: Mapping[str, str]) -> RequestedProperties:
    """What these properties require; those about the protocol take effect, but are not stored.

    Raises:
        InvalidTablePropertyError: A property or a named feature does not exist, its value is invalid, or only Delta itself may
            set it.
    """
    configuration: dict[str, str] = {}
    features: set[str] = set()
    versions = {_READER_VERSION: 1, _WRITER_VERSION: 1}
    check_texts(properties)
    for given, value in properties.items():
        if given.lower().startswith(_FEATURE_PREFIX):
            features.add(_feature(given, value))
            continue
        name = _checked(given, value)
        if name in versions:
            versions[name] = int(value)
        elif name != _IGNORED:
            configuration[name] = value
    return RequestedProperties(
        configuration=configuration,
        features=frozenset(features),
        reader_version=versions[_READER_VERSION],
        writer_version=versions[_WRITER_VERSION],
    )


def spelled(names: Iterable[str]) -> tuple[str, ...]:
    """The names of properties in Delta's spelling; unknown ones stay unchanged."""
    return tuple(_KNOWN[name.lower()][0] if name.lower() in _KNOWN else _INTERNAL.get(name.lower(), name) for name in names)


def split_names(text: str) -> tuple[str, ...]:
    """The column names in a comma-separated list; a comma between backticks is part of a name."""
    names, quoted = [""], False
    for sign in text:
        quoted ^= sign == "`"
        if sign == "," and not quoted:
            names.append("")
        else:
            names[-1] += sign
    return tuple(name.strip() for name in names)


def feature_named(name: str) -> str:
    """The feature's name in the protocol's spelling.

    Raises:
        Refusal: No such feature is known here.
    """
    spelling = {known.lower(): known for known in FEATURES}
    if name.lower() in spelling:
        return spelling[name.lower()]
    near = [spelling[found] for found in difflib.get_close_matches(name.lower(), spelling)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(sorted(FEATURES))}"
    raise Refusal(f"unknown feature {name!r}; {hint}", "correct the name; a newer feature needs a newer airflow-delta")


def _feature(given: str, value: str) -> str:
    if value.lower() not in {"supported", "enabled"}:
        raise InvalidTablePropertyError(name=given, value=value, detail="it must be supported")
    try:
        return feature_named(given[len(_FEATURE_PREFIX) :])
    except Refusal as refusal:
        raise InvalidTablePropertyError(name=given, value=value, detail=refusal.detail) from refusal


def _checked(given: str, value: str) -> str:
    """The property's name in Delta's spelling, if the value is valid for it."""
    lower = given.lower()
    if not lower.startswith((_PREFIX, _OWN_PREFIX)):
        return given
    if lower.startswith(CONSTRAINT_PREFIX):
        raise InvalidTablePropertyError(name=given, value=value, detail="add constraints with ADD CONSTRAINT")
    if lower in _INTERNAL:
        raise InvalidTablePropertyError(name=given, value=value, detail="it is set by Delta only")
    if lower not in _KNOWN:
        near = difflib.get_close_matches(lower, _KNOWN, n=1)
        hint = f"; did you mean {_KNOWN[near[0]][0]}?" if near else ""
        raise InvalidTablePropertyError(name=given, value=value, detail=f"unknown property{hint}")
    name, check = _KNOWN[lower]
    if problem := check(value):
        raise InvalidTablePropertyError(name=name, value=value, detail=problem)
    return name
