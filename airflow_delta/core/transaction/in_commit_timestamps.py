"""In-commit timestamps: each one later than that of the previous version, whatever the clocks say.

Protocol: PROTOCOL.md, "In-Commit Timestamps". Times are milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_delta.core.actions import CommitActions, Metadata

ENABLED = "delta.enableInCommitTimestamps"
ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"

_ENABLEMENT = {ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP}


def are_enabled(configuration: Mapping[str, str]) -> bool:
    """Whether in-commit timestamps are enabled."""
    return configuration.get(ENABLED, "").lower() == "true"


def are_enabled_after(before: Metadata, actions: CommitActions) -> bool:
    """Whether this commit enables in-commit timestamps on an existing table."""
    return bool(actions.metadata and are_enabled(actions.metadata.configuration) and not are_enabled(before.configuration))


def with_time(actions: CommitActions, before: Metadata, *, version: int, after: int) -> CommitActions:
    """The commit with an in-commit timestamp later than ``after``, if the table has them enabled after this commit.

    Args:
        actions: The commit, including its ``commitInfo``.
        before: The table's metadata before the commit; for version 0, the new table's own.
        version: The version that the commit will take.
        after: The timestamp of the previous version, in milliseconds since the epoch.
    """
    if actions.commit_info is None or not are_enabled((actions.metadata or before).configuration):
        return actions
    known = actions.commit_info.in_commit_timestamp
    time = max(actions.commit_info.timestamp if known is None else known, after + 1)
    actions = replace(actions, commit_info=replace(actions.commit_info, in_commit_timestamp=time))
    if actions.metadata is None:
        return actions
    enablement = {ENABLEMENT_VERSION: str(version), ENABLEMENT_TIMESTAMP: str(time)}
    if not are_enabled_after(before, actions):  # an older or another table's metadata does not show which commits have a time
        enablement = {key: before.configuration[key] for key in enablement if key in before.configuration}
    others = {key: value for key, value in actions.metadata.configuration.items() if key not in _ENABLEMENT}
    return replace(actions, metadata=replace(actions.metadata, configuration=others | enablement))
