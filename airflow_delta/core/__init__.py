"""The transaction core: the Delta log, without Spark and without Airflow."""

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.snapshot import Snapshot

__all__ = ["DeltaLog", "Snapshot"]
