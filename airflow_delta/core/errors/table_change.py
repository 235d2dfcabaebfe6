"""Errors of creating and changing a table: the definition or the change is invalid, or not possible yet."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors.base import DeltaError


@dataclass(kw_only=True, eq=False)
class InvalidTableDefinitionError(DeltaError):
    """The table definition is invalid. Spark: ``DELTA_DUPLICATE_COLUMNS_FOUND`` and others.

    Attributes:
        reasons: One line for each reason.
    """

    code = "DELTA_INVALID_TABLE_DEFINITION"
    message = "the definition of {table} is not valid: {reasons}"
    remedy = "correct the schema, the partition columns or the clustering columns"
    table: str
    reasons: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class InvalidTableChangeError(DeltaError):
    """The table's present state does not allow this change.

    Attributes:
        change: Delta's name of the operation, such as ``RENAME COLUMN``.
        cure: What would make the change possible.
    """

    code = "DELTA_INVALID_TABLE_CHANGE"
    message = "{change} on {table} is not possible: {detail}"
    remedy = "{cure}"
    table: str
    change: str
    detail: str
    cure: str = "correct the arguments"


@dataclass(kw_only=True, eq=False)
class InvalidTablePropertyError(DeltaError):
    """An unknown table property, or an invalid value. Spark: ``DELTA_UNKNOWN_CONFIGURATION``."""

    code = "DELTA_INVALID_TABLE_PROPERTY"
    message = "the table property {name} cannot be {value!r}: {detail}"
    remedy = "correct the property; keys that do not start with 'delta.' are free"
    name: str
    value: str | None
    detail: str


@dataclass(kw_only=True, eq=False)
class IcebergCompatError(DeltaError):
    """The table violates the Iceberg compatibility that its properties require. Spark: ``DELTA_ICEBERG_COMPAT_VIOLATION``.

    Attributes:
        property: The properties that require it.
        reasons: One line for each violated rule.
        cure: What would fix them.
    """

    code = "DELTA_ICEBERG_COMPAT_VIOLATION"
    message = "{table} does not keep the rules of {property}: {reasons}"
    remedy = "{cure}"
    table: str
    property: str
    reasons: tuple[str, ...]
    cure: str


@dataclass(kw_only=True, eq=False)
class FeatureDropError(DeltaError):
    """A table feature that cannot be dropped, or not yet. Spark: ``DELTA_FEATURE_DROP_*``.

    Attributes:
        cure: What must be done first.
    """

    code = "DELTA_FEATURE_DROP"
    message = "the feature {feature} of {table} cannot be dropped: {detail}"
    remedy = "{cure}"
    table: str
    feature: str
    detail: str
    cure: str


@dataclass(kw_only=True, eq=False)
class FeatureDependencyError(FeatureDropError):
    """Other features of the table require this feature. Spark: ``DELTA_FEATURE_DROP_DEPENDENT_FEATURE``."""

    code = "DELTA_FEATURE_DROP_DEPENDENT_FEATURE"


@dataclass(kw_only=True, eq=False)
class FeatureInHistoryError(FeatureDropError):
    """Versions within the retention still use the feature. Spark: ``DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST``."""

    code = "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST"
