"""What a commit gets from the version it is to follow: row ids, its time, what it says of the ids it kept, and protection."""

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
    """The attempt as first written.

    Args:
        attempt: With its commit info; ``row_id_high_water_mark`` is that of the version it read.
        after: Time of the version it read, milliseconds since the epoch; only needed where commits carry their time.
        keeps_row_ids: Whether rows that it took from other files carry their ids with them.

    Raises:
        MissingRecordCountError: Rows are numbered here, and the statistics of a new file lack its number of rows.
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
        # A clone or a restored table says itself which ids its files have.
        known = max(known, high_water_mark(actions.domains, attempt.table) or known)
        actions = with_row_ids(actions, attempt.table, known=known, given_out=known, version=version)
        if actions.commit_info and is_enabled(attempt.metadata_after) and (len(actions.adds) or len(actions.removes)):
            preserved = "true" if keeps_row_ids or not rewrites(actions) else "false"
            tags = {PRESERVED_TAG: preserved, **actions.commit_info.tags}
            actions = replace(actions, commit_info=replace(actions.commit_info, tags=tags))
    return replace(attempt, actions=actions, row_id_high_water_mark=known)


def _with_partition_columns(actions: CommitActions, attempt: CommitAttempt) -> CommitActions:
    """The actions whose new files have values of just the table's partition columns; removed ones stay as they were."""
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
