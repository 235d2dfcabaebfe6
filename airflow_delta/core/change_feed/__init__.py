"""The change data feed: the rows that changed between versions."""

from airflow_delta.core.change_feed.change_feed import change_feed
from airflow_delta.core.change_feed.changed_commits import ChangedCommit, changed_commits
from airflow_delta.core.change_feed.changed_range import ChangedRange, check_recorded
from airflow_delta.core.change_feed.changelog import changelog

__all__ = ["ChangedCommit", "ChangedRange", "change_feed", "changed_commits", "changelog", "check_recorded"]
