"""Alerts on commits that lost a race: the public import path of the notifier."""

from airflow_delta.observe.notifications import DeltaConflictNotifier

__all__ = ["DeltaConflictNotifier"]
