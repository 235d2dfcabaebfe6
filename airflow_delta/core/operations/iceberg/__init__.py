"""Iceberg's metadata beside Delta's log (UniForm), written by pyiceberg, which is imported only where a table asks for it."""

from __future__ import annotations

from typing import Final

from airflow_delta.core.actions import CommitActions, Metadata
from airflow_delta.core.errors import IcebergConversionError
from airflow_delta.core.operations.iceberg.conversion_result import IcebergConversion
from airflow_delta.core.operations.table_log import TableLog

ICEBERG_KEY: Final = "iceberg"
"""Key of a conversion in what a result says of the work behind a commit."""


def write_iceberg_metadata(
    log: TableLog, *, version: int, timestamp: int, metadata: Metadata, actions: CommitActions | None = None
) -> IcebergConversion:
    """Write Iceberg's metadata of a version, unless a conversion has come as far.

    Args:
        log: The table.
        version: The version.
        timestamp: Of its commit, milliseconds since the epoch.
        metadata: The table's, as of this version.
        actions: Of its commit, where they are at hand: then nothing is read that the last conversion knew.

    Raises:
        IcebergConversionError: pyiceberg is not installed; or Iceberg's metadata cannot say what the table holds.
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
