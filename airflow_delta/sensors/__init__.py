"""Waiting for Delta tables."""

from airflow_delta.sensors.commit import DeltaCommitSensor

__all__ = ["DeltaCommitSensor"]
