"""What changed, row by row, from one version of a table to another."""

from airflow_delta.core.change_feed.change_feed import change_feed
from airflow_delta.core.change_feed.changed_commits import ChangedCommit, changed_commits
from airflow_delta.core.change_feed.changed_range import ChangedRange, check_recorded
from airflow_delta.core.change_feed.changelog import changelog

__all__ = ["ChangedCommit", "ChangedRange", "change_feed", "changed_commits", "changelog", "check_recorded"]
