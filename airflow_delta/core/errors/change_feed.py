"""Errors of the change data feed."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors.base import DeltaError


@dataclass(kw_only=True, eq=False)
class ChangeDataNotRecordedError(DeltaError):
    """The table did not record changes. Spark: ``DELTA_MISSING_CHANGE_DATA``, ``DELTA_CHANGE_TABLE_FEED_DISABLED``."""

    code = "DELTA_MISSING_CHANGE_DATA"
    message = "{table} did not record its changes in version {version}: {detail}"
    remedy = "read only versions in which delta.enableChangeDataFeed was true throughout, or compare two snapshots"
    table: str
    version: int
    detail: str


@dataclass(kw_only=True, eq=False)
class ChangeSchemaError(DeltaError):
    """Changes of one version do not fit the schema of another. Spark: ``DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE``.

    Attributes:
        version: The version whose changes do not fit.
        read_version: The version whose schema is used to read the changes.
    """

    code = "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE"
    message = "the changes of version {version} of {table} do not fit the schema of version {read_version}: {differences}"
    remedy = "read the versions before and after the schema change separately"
    table: str
    version: int
    read_version: int
    differences: tuple[str, ...]
