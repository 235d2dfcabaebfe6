"""Writes a checkpoint with Spark's workers, if the log is too large for one process.

The log is read in pieces, each action goes to the bucket of its file's path, and each bucket is reconciled and written by one
task: no process holds more than a bucket. The part that makes the files a checkpoint is written last, so that a job that dies
leaves files that no reader uses, and the previous checkpoint stays in use.

Protocol: PROTOCOL.md, "Checkpoints", "V2 Checkpoint Table Feature", "Action Reconciliation".
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from airflow_delta.core.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CorruptLogError, InvalidStatementError, UnsupportedStorageError
from airflow_delta.core.log.commit_reader import CommitBatch
from airflow_delta.core.log.log_replay import LogReplay
from airflow_delta.core.log.managed_log_store import publish_ratified
from airflow_delta.core.log.non_file_actions import DOMAIN, METADATA, PROTOCOL, TRANSACTION, LogText, NonFileActions
from airflow_delta.core.log.unfinished_commits import read_settled
from airflow_delta.core.operations.checkpoints import CheckpointKind, CheckpointResult
from airflow_delta.core.operations.checkpoints.checkpoint_writer import CHECKPOINT_PROTECTION, V2_CHECKPOINT
from airflow_delta.core.operations.checkpoints.content import CheckpointContent
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements.fields import converted_value
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.object_location import ObjectLocation
from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.core.table_features.feature import writer_features
from airflow_delta.core.table_features.support import check_writable
from airflow_delta.core.transaction.table_properties import protected_before
from airflow_delta.spark.distributed.checkpoint_head import head_parts, head_sidecars
from airflow_delta.spark.distributed.checkpoint_worker import (
    LINES_DDL,
    MESSAGES,
    MESSAGES_DDL,
    WRITTEN,
    WRITTEN_DDL,
    ActionShuffler,
    CheckpointedTable,
    FileWriter,
    PartShuffler,
    SmallLinesReader,
)
from airflow_delta.spark.distributed.log_pieces import LogPiece, pieces_table
from airflow_delta.spark.distributed.log_start import MANY_ACTIONS, LogStart
from airflow_delta.spark.io.file_tasks import tasks_of_units
from airflow_delta.spark.io.map_files import PerTask, map_files
from airflow_delta.spark.io.tasks import ACTION_BYTES
from airflow_delta.spark.io.worker_values import typed_worker_errors
from airflow_delta.spark.spark_features import repartition_by_id
from airflow_delta.spark.worker_code import map_in_arrow

MANY_ACTIONS_SETTING = "spark.airflow_delta.checkpoint.manyActions"
"""Setting of the session or cluster: the number of actions from which on a checkpoint is written with Spark."""

ACTIONS_OF_FILE = 1 << 17
"""Approximate number of actions in a sidecar or part: a worker needs less than 500 MiB to reconcile and write them."""

_LEAST_PARTS = 2

PieceWork = ActionShuffler | SmallLinesReader


def checkpoint(
    spark: SparkSession,
    log: DeltaLog,
    version: int | None = None,
    *,
    kind: CheckpointKind | str | None = None,
    many: int | None = None,
    actions_of_file: int = ACTIONS_OF_FILE,
) -> CheckpointResult:
    """Write the checkpoint of a version: with Spark if the log is too large for one process, else as ``DeltaLog.checkpoint``.

    With Spark it consists of many files: sidecars if the table has the feature v2Checkpoint, whatever its policy, else parts.
    If the kind ``classic`` is requested, this process writes a single file; it also does so if the workers cannot access the
    table's files (Hadoop's filesystems, or a package that they lack).

    Args:
        spark: The session.
        log: The table's log.
        version: The version; the latest one when None.
        kind: As of ``DeltaLog.checkpoint``; None is the kind that fits.
        many: Number of actions from which on Spark is used; the session's ``MANY_ACTIONS_SETTING`` when None.
        actions_of_file: Approximate number of actions in a file, and in a task.

    Raises:
        InvalidStatementError: The table does not allow this kind, or the version is one whose checkpoints are protected.
        As ``DeltaLog.checkpoint``.
    """
    requested: CheckpointKind | None = converted_value("checkpoint", "kind", kind, CheckpointKind | None)
    if requested is CheckpointKind.CLASSIC or not _is_in_reach(log.store):
        return log.checkpoint(version, kind=kind)
    publish_ratified(log.store)  # the workers read published commits
    start = LogStart.of(log.store, version)
    if not start.outgrows_one_process(_many(spark) if many is None else many):
        return log.checkpoint(version, kind=kind)
    shared = _SharedCheckpoint(spark, log, requested, actions_of_file)
    try:
        if version is not None:
            shared.check_unprotected(version)
        return shared.write(start)
    except UnsupportedStorageError:
        return log.checkpoint(version, kind=kind)


def _many(spark: SparkSession) -> int:
    return int(spark.conf.get(MANY_ACTIONS_SETTING, str(MANY_ACTIONS)))


def _is_in_reach(store: LogStore) -> bool:
    """Whether workers can access the table's files as the driver does."""
    return scheme_of(store.table_uri) == "file" or ObjectLocation.from_uri(store.table_uri) is not None


class _SharedCheckpoint:
    """The work of one statement."""

    def __init__(self, spark: SparkSession, log: DeltaLog, kind: CheckpointKind | None, actions_of_file: int) -> None:
        self._spark = spark
        self._store = log.store
        self._now = log.clock()
        self._kind = kind
        self._actions_of_file = actions_of_file

    def check_unprotected(self, version: int) -> None:
        """Raise ``InvalidStatementError`` if the version is one whose checkpoints are protected, and none may be added."""
        latest = LogStart.of(self._store)
        if version == latest.segment.version:
            return
        protected = protected_before(self._snapshot(latest).metadata.configuration)
        if version < protected:
            detail = f"the table has the feature {CHECKPOINT_PROTECTION}: no checkpoint may be added before version {protected}"
            raise InvalidStatementError(statement=f"checkpoint of version {version}", detail=detail)

    def write(self, start: LogStart) -> CheckpointResult:
        """Write the checkpoint; if the previous one turns out to be broken, start from an older one."""
        while True:
            try:
                return self._written(start)
            except CorruptLogError as error:
                start = start.without_checkpoint(self._store, error)

    def _written(self, start: LogStart) -> CheckpointResult:
        snapshot = self._snapshot(start)
        check_writable(snapshot.table_uri, snapshot.protocol, snapshot.metadata)
        kind = allowed_kind(self._kind, snapshot.protocol)
        content = CheckpointContent.from_snapshot(snapshot, self._now)
        table = CheckpointedTable(
            table_uri=snapshot.table_uri,
            storage_options=self._store.storage_options,
            version=snapshot.version,
            protocol=snapshot.protocol,
            metadata=snapshot.metadata,
            now=self._now,
        )
        buckets = max(_LEAST_PARTS, -(-start.actions // self._actions_of_file))
        shuffler = ActionShuffler(table=table, buckets=buckets)
        messages = self._of_pieces(start.pieces(), start.actions, shuffler, MESSAGES_DDL)
        if kind.is_v2:
            return head_sidecars(content, kind, self._files(messages, buckets, FileWriter(table=table)))
        by_path = repartition_by_id(messages, buckets, F.col("bucket"))
        by_part = map_in_arrow(by_path, PartShuffler(table=table, parts=buckets), MESSAGES_DDL)
        writer = FileWriter(table=table, parts=buckets, small=tuple(content.non_file_actions()))
        return head_parts(content, self._files(by_part.unionAll(self._nothing_for(buckets)), buckets, writer))

    def _files(self, messages: DataFrame, buckets: int, writer: FileWriter) -> list[dict[str, object]]:
        """The files, each written by its own task, in the order of their buckets."""
        by_bucket = repartition_by_id(messages, buckets, F.col("bucket"))
        with typed_worker_errors():
            files: pa.Table = map_in_arrow(by_bucket, writer, WRITTEN_DDL).toArrow().cast(WRITTEN)
        written = files.sort_by("bucket").to_pylist()
        if scheme_of(self._store.table_uri) == "file":
            self._check_shared([file["path"] for file in written])
        return written

    def _check_shared(self, paths: Iterable[str]) -> None:
        """Raise ``UnsupportedStorageError`` if workers wrote to local disks of their own."""
        for path in paths:
            if self._store.status(path) is None:
                detail = f"{path}, which a worker of Spark wrote, is not there: the path is not the same on every machine"
                raise UnsupportedStorageError(uri=self._store.table_uri, detail=detail)

    def _nothing_for(self, parts: int) -> DataFrame:
        """An empty message for each part, because empty parts must exist, too."""
        nothing = [pa.array(range(parts), pa.int32()), *(pa.nulls(parts, field.type) for field in list(MESSAGES)[1:])]
        return self._spark.createDataFrame(pa.table(nothing, schema=MESSAGES))

    def _snapshot(self, start: LogStart) -> Snapshot:
        """The version as a snapshot, complete except for its files."""
        replay = LogReplay(self._store, start.segment, start.header, self._non_file_actions(start))
        return Snapshot(self._store, replay)

    def _non_file_actions(self, start: LogStart) -> CommitBatch:
        """The non-file actions of the commits after the checkpoint. Raises ``CorruptLogError`` as the core does."""
        if not start.segment.commits:
            return CommitBatch()
        reader = SmallLinesReader(table_uri=self._store.table_uri, storage_options=self._store.storage_options)
        actions = start.actions - sum(start.rows.values())
        with typed_worker_errors():
            lines = self._of_pieces(start.commits(), actions, reader, LINES_DDL).toArrow().sort_by("version")
        commits = start.segment.commits
        texts = [LogText.from_content(commits[row["version"]].path, row["version"], row["lines"]) for row in lines.to_pylist()]
        keys = (PROTOCOL, METADATA, TRANSACTION, DOMAIN)
        small = read_settled(self._store, partial(NonFileActions, self._store.table_uri, texts, keys))
        return CommitBatch(
            protocol=small.last_of(PROTOCOL, Protocol.from_json),
            metadata=small.last_of(METADATA, Metadata.from_json),
            transactions={
                transaction.app_id: transaction for _, transaction in small.all_of(TRANSACTION, SetTransaction.from_json)
            },
            domains={domain.domain: domain for _, domain in small.all_of(DOMAIN, DomainMetadata.from_json)},
        )

    def _of_pieces(self, pieces: Iterable[LogPiece], actions: int, work: PieceWork, ddl: str) -> DataFrame:
        """The results of workers for the pieces, which contain ``actions`` actions."""
        table = pieces_table(pieces)
        tasks = tasks_of_units(self._spark, len(table), actions * ACTION_BYTES)
        return map_files(self._spark, table, tasks, partial(PerTask, work), ddl)


def allowed_kind(kind: CheckpointKind | None, protocol: Protocol) -> CheckpointKind:
    """The kind of a checkpoint with many files; by default with sidecars if the table supports them, else in parts.

    Raises:
        InvalidStatementError: The table does not allow the kind.
    """
    has_feature = V2_CHECKPOINT in writer_features(protocol)
    if kind is None:
        return CheckpointKind.V2_JSON if has_feature else CheckpointKind.MULTI_PART
    if kind.is_v2 and not has_feature:
        detail = f"the table does not have the feature {V2_CHECKPOINT}"
    elif not kind.is_v2 and has_feature:
        detail = f"the table has the feature {V2_CHECKPOINT}, which forbids it"
    else:
        return kind
    raise InvalidStatementError(statement=f"checkpoint ({kind.value})", detail=detail)
