"""Pinning as a statement: in a job, which has access to the data, or in an Airflow worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.operations.pinning import pin_versions
from airflow_delta.core.statements import OperationResult, PinStatement


def execute_pin(statement: PinStatement, open_log: Callable[[str], DeltaLog], origin: Origin) -> OperationResult:
    """Pin the tables; ``details["pins"]`` holds each ``PinnedVersion`` as a dict. Raises as ``pin_versions`` does."""
    pins = pin_versions(statement, open_log, origin.record)
    return OperationResult(
        table=statement.table,
        version=pins[0].version,
        read_version=pins[0].version,
        operation="PIN",
        committed=False,
        details={"pins": [asdict(pin) for pin in pins]},
    )
