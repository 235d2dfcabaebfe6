"""Iceberg metadata beside Delta's log (UniForm), written by pyiceberg, which is only imported for tables that need it."""

from __future__ import annotations

from typing import Final

from airflow_delta.core.actions import CommitActions, Metadata
from airflow_delta.core.errors import IcebergConversionError
from airflow_delta.core.operations.iceberg.conversion_result import IcebergConversion
from airflow_delta.core.operations.table_log import TableLog

ICEBERG_KEY: Final = "iceberg"
"""Key of a conversion in what a result reports of post-commit work."""


def write_iceberg_metadata(
    log: TableLog, *, version: int, timestamp: int, metadata: Metadata, actions: CommitActions | None = None
) -> IcebergConversion:
    """Write Iceberg metadata of a version, unless this or a later version was converted already.

    Args:
        log: The table.
        version: The version.
        timestamp: Time of its commit, in milliseconds since the epoch.
        metadata: The table's metadata at this version.
        actions: The actions of its commit, if available: they avoid reading what the last conversion already knew.

    Raises:
        IcebergConversionError: pyiceberg is not installed, or Iceberg metadata cannot represent the table.
        As ``conversion.convert``.
    """
    try:
        from airflow_delta.core.operations.iceberg.conversion import ConvertedVersion, convert  # noqa: PLC0415
    except ImportError as error:
        detail = f"pyiceberg cannot be imported here ({error})"
        cure = "install airflow-delta[iceberg] for the Python that commits: the driver's, or the Airflow worker's"
        raise IcebergConversionError(table=log.table_uri, detail=detail, cure=cure) from error
    return convert(log, ConvertedVersion(version=version, timestamp=timestamp, metadata=metadata, actions=actions))


__all__ = ["ICEBERG_KEY", "IcebergConversion", "write_iceberg_metadata"]
