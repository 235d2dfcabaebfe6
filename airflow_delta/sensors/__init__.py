"""Waiting for Delta tables."""

import airflow_delta.airflow_extra  # noqa: F401
from airflow_delta.sensors.commit import DeltaCommitSensor
from airflow_delta.sensors.partition import DeltaPartitionSensor

__all__ = ["DeltaCommitSensor", "DeltaPartitionSensor"]
