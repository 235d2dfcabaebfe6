"""What a commit takes from the version before it: row ids, in-commit timestamp, tags, checkpoint protection."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from airflow_delta.core.actions import CommitActions
from airflow_delta.core.schema.partition_values import partition_keys, with_exact_keys
from airflow_delta.core.table_features.feature import columns_of
from airflow_delta.core.transaction.commit_attempt import CommitAttempt
from airflow_delta.core.transaction.commit_checks import rewrites
from airflow_delta.core.transaction.in_commit_timestamps import with_time
from airflow_delta.core.transaction.metadata_changes import still_protecting, with_versions_of_type_changes
from airflow_delta.core.transaction.row_tracking import (
    PRESERVED_TAG,
    high_water_mark,
    is_enabled,
    numbers_rows,
    with_row_ids,
)


def prepared(attempt: CommitAttempt, *, after: int, keeps_row_ids: bool) -> CommitAttempt:
    """The attempt, completed for its first try.

    Args:
        attempt: The attempt with its ``commitInfo``; ``row_id_high_water_mark`` is that of the version it read.
        after: Time of the version it read, in milliseconds since the epoch; only used with in-commit timestamps.
        keeps_row_ids: Whether rows moved from other files keep their row ids.

    Raises:
        MissingRecordCountError: The table numbers its rows, and the statistics of a new file lack its number of rows.
    """
    version = attempt.read_version + 1
    actions = attempt.actions
    if actions.metadata:
        metadata = still_protecting(actions.metadata, attempt.metadata, attempt.protocol_after)
        metadata = with_versions_of_type_changes(metadata, attempt.protocol_after, version)
        actions = replace(actions, metadata=metadata)
    actions = _with_partition_columns(actions, attempt)
    actions = with_time(actions, attempt.metadata, version=version, after=after)
    known = attempt.row_id_high_water_mark
    if numbers_rows(attempt.protocol_after, attempt.metadata_after):
        # Clone and restore set the row ids of their files themselves.
        known = max(known, high_water_mark(actions.domains, attempt.table) or known)
        actions = with_row_ids(actions, attempt.table, known=known, given_out=known, version=version)
        if actions.commit_info and is_enabled(attempt.metadata_after) and (len(actions.adds) or len(actions.removes)):
            preserved = "true" if keeps_row_ids or not rewrites(actions) else "false"
            tags = {PRESERVED_TAG: preserved, **actions.commit_info.tags}
            actions = replace(actions, commit_info=replace(actions.commit_info, tags=tags))
    return replace(attempt, actions=actions, row_id_high_water_mark=known)


def _with_partition_columns(actions: CommitActions, attempt: CommitAttempt) -> CommitActions:
    """The actions, with new files' partition values cut to the table's partition columns; removed files stay unchanged."""
    if not (len(actions.adds) or len(actions.changes)):
        return actions
    schema = columns_of(actions.metadata, attempt.protocol_after) if actions.metadata else attempt.schema
    keys = partition_keys(schema, attempt.metadata_after.partition_columns)
    return replace(actions, adds=_with_exact_keys(actions.adds, keys), changes=_with_exact_keys(actions.changes, keys))


def _with_exact_keys(files: pa.Table, keys: list[str]) -> pa.Table:
    if not len(files):
        return files
    index = files.schema.get_field_index("partition_values")
    maps = files.column(index)
    exact = with_exact_keys(maps, keys)
    return files if exact is maps else files.set_column(index, files.schema.field(index), exact)
