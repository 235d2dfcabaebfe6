"""The post-commit hooks: publication, checkpoint, version checksum, log cleanup, manifests, and Iceberg metadata.

A hook that fails is reported in the commit's result, and fails neither the commit nor the other hooks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_delta.core.actions import CommitActions, Metadata
from airflow_delta.core.log.log_replay import LogReplay
from airflow_delta.core.log.managed_commits import Maintenance, is_permitted
from airflow_delta.core.log.managed_log_store import publish_ratified
from airflow_delta.core.log.version_checksum import VersionChecksum, read_checksum
from airflow_delta.core.operations.checkpoints import CheckpointResult, write_checkpoint
from airflow_delta.core.operations.checksum_writer import counted_checksum, next_checksum, write_checksum
from airflow_delta.core.operations.iceberg import ICEBERG_KEY, write_iceberg_metadata
from airflow_delta.core.operations.log_cleanup import clean_up_log
from airflow_delta.core.operations.manifest import keeps_manifests, update_manifests
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_features.iceberg_compat import has_iceberg_metadata
from airflow_delta.core.transaction.commit_result import CommitResult
from airflow_delta.core.transaction.post_commit_hooks import PostCommitHook
from airflow_delta.core.transaction.table_properties import checkpoint_interval, cleans_up_log


class AfterCommit:
    """The hooks of one log; keeps the last version checksum, so that the next one is computed without reading files."""

    def __init__(self, log: TableLog) -> None:
        self._log = log
        self._checkpoint: tuple[Snapshot, CheckpointResult] | None = None
        self._checksum: tuple[int, VersionChecksum] | None = None

    @property
    def hooks(self) -> tuple[PostCommitHook, ...]:
        """The hooks in order: the checkpoint comes before the checksum, as it counts the files that the checksum records."""
        return (
            self._publish,
            self._write_checkpoint,
            self._write_checksum,
            self._clean_up,
            self._update_manifests,
            self._convert_to_iceberg,
        )

    def forget_another_table(self, found: LogReplay) -> None:
        """Called when the log was read from scratch: what is remembered may belong to an earlier table at this path."""
        if self._checksum:
            version, checksum = self._checksum
            commit = found.commit_info
            if commit is None or commit.txn_id is None or (version, checksum.txn_id) != (found.segment.version, commit.txn_id):
                self._checksum = None

    def _publish(self, _result: CommitResult, _actions: CommitActions, _metadata: Metadata) -> None:
        publish_ratified(self._log.store)

    def _write_checkpoint(self, result: CommitResult, _actions: CommitActions, metadata: Metadata) -> None:
        self._checkpoint = None
        if result.version and result.version % checkpoint_interval(metadata.configuration) == 0:
            self._log.refresh()  # continues from what is known, instead of reading from the start
            snapshot = self._log.snapshot(result.version)
            self._checkpoint = snapshot, write_checkpoint(snapshot, now=self._log.clock())

    def _write_checksum(self, result: CommitResult, actions: CommitActions, _metadata: Metadata) -> None:
        previous = self._previous(result.version)
        checksum = next_checksum(previous, actions) if previous or not result.version else None
        if self._checkpoint:
            snapshot, counted = self._checkpoint
            checksum = counted_checksum(checksum, snapshot, files=counted.files, size=counted.table_size)
        if checksum is None:
            return
        self._checksum = (result.version, checksum)
        write_checksum(self._log.store, result.version, checksum)

    def _previous(self, version: int) -> VersionChecksum | None:
        if version == 0:
            return None
        if self._checksum and self._checksum[0] == version - 1:
            return self._checksum[1]
        return read_checksum(self._log.store, version - 1)

    def _clean_up(self, _result: CommitResult, _actions: CommitActions, metadata: Metadata) -> None:
        if (
            self._checkpoint
            and cleans_up_log(metadata.configuration)
            and is_permitted(self._log.store, Maintenance.LOG_CLEANUP)
        ):
            clean_up_log(self._log)

    def _update_manifests(self, _result: CommitResult, actions: CommitActions, metadata: Metadata) -> None:
        if keeps_manifests(metadata.configuration):
            update_manifests(self._log.refresh(), actions)

    def _convert_to_iceberg(self, result: CommitResult, actions: CommitActions, metadata: Metadata) -> Mapping[str, Any] | None:
        if not has_iceberg_metadata(metadata):
            return None
        done = write_iceberg_metadata(
            self._log, version=result.version, timestamp=result.timestamp, metadata=metadata, actions=actions
        )
        return {ICEBERG_KEY: done.to_json()}
