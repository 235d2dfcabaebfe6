"""Plans a write through ``format("delta")`` before any row is processed, and commits it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_delta.core.actions import ADD_FILE, NO_REMOVES, Origin, removes_of
from airflow_delta.core.actions.file_actions import STRING_MAP
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import SchemaMismatchError, UnsupportedWriterFeatureError
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.char_columns import CHAR_VARCHAR
from airflow_delta.core.schema.differences import schema_differences
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.table_changes.definition import Definition
from airflow_delta.core.table_features.support import ROW_FEATURES, check_writable
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from airflow_delta.spark.errors import DataSourceWriteError
from airflow_delta.spark.io.data_paths import log_path
from airflow_delta.spark.statement.conform import repeated_names
from airflow_delta.spark.statement.format_options import WriteOptions
from airflow_delta.spark.statement.schema_evolution import as_new
from airflow_delta.spark.supported_features import SUPPORTED

_WRITTEN = frozenset(
    {
        "appendOnly",
        "checkpointProtection",
        "clustering",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "inCommitTimestamp",
        "timestampNtz",
        "typeWidening",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Features whose constraints a Python worker can enforce, in addition to NOT NULL; not those that need SQL."""

_LIMITED = re.compile(r"(var)?char\((?P<length>\d+)\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """A planned write, as it is sent to the workers and back.

    Attributes:
        path: The table.
        version: The version that it is based on; -1 if it creates the table.
        definition: The table's definition.
        overwrite: Whether existing rows are removed.
        user_metadata: The user's own text for the commit.
    """

    path: str
    version: int
    definition: Definition
    overwrite: bool
    user_metadata: str | None = None


def plan_write(options: WriteOptions, rows: StructType, *, overwrite: bool) -> WritePlan:
    """Check that these rows may be written in this way.

    Args:
        options: Options of the writer.
        rows: The schema of the rows.
        overwrite: Whether existing rows are removed.

    Raises:
        SchemaMismatchError: The rows do not fit the table, or a table cannot hold them.
        DataSourceWriteError: The table has constraints that this way of writing cannot enforce.
        UnsupportedWriterFeatureError: The table needs a feature that no way of writing here supports.
    """
    log = DeltaLog.for_table(options.path)
    if not log.exists():
        definition, version = log.plan_create(NewTable(schema=as_new(rows))).definition, -1
    else:
        snapshot = log.snapshot()
        _check_writable(log.table_uri, snapshot)
        definition, version = Definition(metadata=snapshot.metadata, protocol=snapshot.protocol), snapshot.version
        if differences := (*repeated_names(rows), *schema_differences(rows, snapshot.schema, missing_as_null=True)):
            raise SchemaMismatchError(table=log.table_uri, differences=differences)
    return WritePlan(
        path=options.path,
        version=version,
        definition=definition,
        overwrite=overwrite,
        user_metadata=options.user_metadata,
    )


def text_limits(schema: StructType) -> dict[str, int]:
    """Most characters in the columns that are ``varchar(n)`` or ``char(n)``, by name."""
    found = ((field.name, _LIMITED.fullmatch(_type_text(field))) for field in schema.fields)
    return {name: int(limit["length"]) for name, limit in found if limit}


def _check_writable(table: str, snapshot: Snapshot) -> None:
    """Return if this way of writing enforces every constraint of the table."""
    check_writable(table, snapshot.protocol, snapshot.metadata, known=SUPPORTED)
    try:
        check_writable(table, snapshot.protocol, snapshot.metadata, known=_WRITTEN)
    except UnsupportedWriterFeatureError as error:
        raise DataSourceWriteError(table=table, features=error.features) from None
    _check_lengths(table, snapshot.schema)


def _check_lengths(table: str, schema: StructType) -> None:
    """Return if all strings of limited length are top-level columns: lengths of nested ones are not checked here."""
    limited = {field.name: _type_text(field) for field in schema.fields if _type_text(field)}
    if inside := limited.keys() - text_limits(schema).keys():
        features = tuple(sorted(f"the lengths inside {name} ({limited[name]})" for name in inside))
        raise DataSourceWriteError(table=table, features=features)


def _type_text(field: StructField) -> str:
    return str(field.metadata.get(CHAR_VARCHAR, ""))


def commit_files(plan: WritePlan, files: Iterable[Mapping[str, Any]]) -> None:
    """Add the files to the table, in one commit.

    Args:
        plan: What was planned before the rows were written.
        files: For each file ``path`` below the root (not percent-encoded), ``partition_values`` by physical name, ``size``,
            ``stats``, ``num_records`` and ``modification_time``.

    Raises:
        CommitConflictError: Another writer changed the table's definition, or the rows to be removed.
    """
    described = list(files)
    log = DeltaLog.for_table(plan.path)
    transaction = _begin(plan, log)
    metadata = plan.definition.metadata
    removed = transaction.files() if plan.overwrite and plan.version >= 0 else None
    adds = _adds(described)
    transaction.commit(
        adds=adds,
        removes=NO_REMOVES if removed is None else removes_of(removed, deletion_timestamp=log.clock(), data_change=True),
        operation=Operation(
            name="WRITE",
            parameters={
                "mode": "Overwrite" if plan.overwrite else "Append",
                "partitionBy": list(metadata.partition_columns),
            },
        ),
        metrics={
            "numFiles": len(adds),
            "numOutputRows": sum(file["num_records"] for file in described),
            "numOutputBytes": sum(file["size"] for file in described),
        },
        origin=Origin(user_metadata=plan.user_metadata),
        allow_empty=True,
    )


def _begin(plan: WritePlan, log: DeltaLog) -> OptimisticTransaction:
    enforced = ROW_FEATURES & _WRITTEN
    if plan.version < 0:
        return log.create_transaction(plan.definition.metadata, plan.definition.protocol, enforces=enforced)
    return log.start_transaction(log.snapshot(plan.version), enforces=enforced)


def _adds(files: list[Mapping[str, Any]]) -> pa.Table:
    columns = {
        "path": pa.array([log_path(file["path"]) for file in files], pa.string()),
        "partition_values": pa.array([list(file["partition_values"].items()) for file in files], STRING_MAP),
        "size": pa.array([file["size"] for file in files], pa.int64()),
        "modification_time": pa.array([file["modification_time"] for file in files], pa.int64()),
        "data_change": pa.repeat(pa.scalar(True), len(files)),
        "stats": pa.array([file["stats"] for file in files], pa.string()),
    }
    return pa.table([columns.get(field.name, pa.nulls(len(files), field.type)) for field in ADD_FILE], schema=ADD_FILE)
