"""The table at one version."""

from airflow_delta.core.snapshot.snapshot import Snapshot

__all__ = ["Snapshot"]
