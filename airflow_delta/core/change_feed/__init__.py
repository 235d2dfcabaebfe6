"""What changed, row by row, from one version of a table to another."""

from airflow_delta.core.change_feed.change_feed import change_feed
from airflow_delta.core.change_feed.changed_range import ChangedRange, check_recorded
from airflow_delta.core.change_feed.changelog import changelog

__all__ = ["ChangedRange", "change_feed", "changelog", "check_recorded"]
