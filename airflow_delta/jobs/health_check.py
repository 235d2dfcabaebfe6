"""The health check of a table, as a statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.operations.table_health import Finding, check_health
from airflow_delta.core.statements import HealthStatement, OperationResult


def execute_health_check(log: DeltaLog, statement: HealthStatement) -> OperationResult:
    """Check a table, even one that cannot be opened; ``details`` holds ``findings``, the worst first, and ``figures``.

    Raises:
        TableNotFoundError: There is no table.
        StorageAccessError: The storage refuses access.
    """
    health = check_health(log, list_files=statement.list_files)
    version = -1 if health.version is None else health.version
    return OperationResult(
        table=log.table_uri,
        version=version,
        read_version=version,
        operation="HEALTH",
        committed=False,
        details={"findings": [_serialized(finding) for finding in health.findings], "figures": health.figures},
    )


def _serialized(finding: Finding) -> Mapping[str, Any]:
    return {
        "severity": str(finding.severity),
        "code": finding.code,
        "text": finding.text,
        "remedy": finding.remedy,
        "files": list(finding.files),
    }
