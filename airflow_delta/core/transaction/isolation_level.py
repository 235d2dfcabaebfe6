"""Isolation levels."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from airflow_delta.core.actions import CommitActions
from airflow_delta.core.transaction.row_tracking import ROW_TRACKING_DOMAIN


class IsolationLevel(StrEnum):
    """Delta's isolation levels, from the strictest to the loosest; the values are the names in the log."""

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT_ISOLATION = "SnapshotIsolation"


def table_isolation_level(configuration: Mapping[str, str]) -> IsolationLevel:
    """``WriteSerializable`` if ``delta.isolationLevel`` says so, else ``Serializable``, as in open source Delta."""
    requested = configuration.get("delta.isolationLevel", "").lower()
    return IsolationLevel.WRITE_SERIALIZABLE if requested == "writeserializable" else IsolationLevel.SERIALIZABLE


def commit_isolation_level(table_level: IsolationLevel, actions: CommitActions, *, changes_data: bool) -> IsolationLevel:
    """The level that this commit needs: a commit that changes no data only requires that its own files are unchanged.

    Follows ``TransactionHelper.getIsolationLevelToUse`` of Delta Spark.

    Args:
        table_level: What the table requires.
        actions: What the commit writes.
        changes_data: Whether this kind of operation changes data (``Operation.changes_data``).
    """
    domains = [domain for domain in actions.domains if domain.domain != ROW_TRACKING_DOMAIN]
    if actions.protocol or actions.metadata or actions.transactions or domains:
        return table_level
    if any(True in files["data_change"].unique().to_pylist() for files in (actions.adds, actions.removes)):
        return table_level
    if table_level is IsolationLevel.WRITE_SERIALIZABLE and changes_data:
        return table_level
    return IsolationLevel.SNAPSHOT_ISOLATION
