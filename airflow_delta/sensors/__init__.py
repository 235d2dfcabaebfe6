"""Waiting for Delta tables."""

import airflow_delta.airflow_extra  # noqa: F401
from airflow_delta.sensors.commit import DeltaCommitSensor

__all__ = ["DeltaCommitSensor"]
