"""Creating or replacing a table."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import pyarrow as pa

from airflow_delta.core.actions import NO_REMOVES, DomainMetadata, Metadata, Origin, Protocol, removes_of
from airflow_delta.core.errors import (
    AppendOnlyTableError,
    InvalidTableDefinitionError,
    LocationNotEmptyError,
    TableExistsError,
    TableNotFoundError,
)
from airflow_delta.core.schema import StructType, schema_json
from airflow_delta.core.statements import CreateMode
from airflow_delta.core.table_changes.clustering import CLUSTERING_FEATURE, clustering_domain
from airflow_delta.core.table_changes.column_path import ColumnPath, parse_path, path_text
from airflow_delta.core.table_changes.definition import Definition, new_definition
from airflow_delta.core.table_changes.definition_rules import check_clustering
from airflow_delta.core.table_changes.expressions import CONSTRAINT_PREFIX, columns_in
from airflow_delta.core.table_changes.properties import check_timestamps_kept, requested, required_by_catalog
from airflow_delta.core.table_changes.refusal import Refusal
from airflow_delta.core.table_changes.schema_edit import find_column
from airflow_delta.core.table_features.feature import CLUSTERING
from airflow_delta.core.transaction.commit_result import CommitResult
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from airflow_delta.core.transaction.table_properties import is_append_only


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """A table as a statement describes it.

    Attributes:
        schema: Its columns; see ``columns`` for defaults, generated columns and identity columns.
        partition_columns: Names of the partition columns, in order.
        clustering_columns: Paths of the clustering columns, at most four; never together with partition columns.
        properties: ``delta.*`` properties, of which those about the protocol take effect but are not stored, and the user's
            own.
        constraints: CHECK constraints: condition by name.
        name: Name for people.
        description: Description for people.
    """

    schema: StructType
    partition_columns: Sequence[str] = ()
    clustering_columns: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    constraints: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None

    def partition_by(self) -> tuple[str, ...]:
        """The partition columns, as spelled in the schema."""
        found = ((name, self.schema.find(name)) for name in self.partition_columns)
        return tuple(column.name if column else name for name, column in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlace:
    """Where a table is to be made.

    Attributes:
        uri: URI of the table, for errors.
        now: Milliseconds since the epoch.
        create: Starts a transaction that creates a table.
        latest: Starts a transaction on the existing table; raises ``TableNotFoundError`` without one.
        stray_file: Returns the path of a file there that would be taken for one of the table's; None without one.
        identity: The table properties that identify the table in the catalog that manages it.
    """

    uri: str
    now: int
    create: Callable[[Metadata, Protocol], OptimisticTransaction]
    latest: Callable[[], OptimisticTransaction]
    stray_file: Callable[[], str | None]
    identity: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTable:
    """What a statement would make.

    Attributes:
        operation: Delta's name of the operation; None if the existing table would be left unchanged.
        read_version: Version of the existing table; -1 without one.
        definition: The table's definition afterwards.
        removed_files: How many of the existing table's files would be removed.
    """

    operation: str | None
    read_version: int
    definition: Definition
    removed_files: int = 0


def plan_table(new: NewTable, place: TablePlace, *, mode: CreateMode = "error") -> PlannedTable:
    """What ``create_table`` would do; nothing is committed. Arguments and errors: as of ``create_table``."""
    try:
        transaction = place.latest()
    except TableNotFoundError:
        _check_empty(place)
        return PlannedTable(operation=_name(mode), read_version=-1, definition=_of_place(new, place)[0])
    version = transaction.read_version
    match mode:
        case "error":
            raise TableExistsError(table=place.uri, version=version)
        case "ignore":
            return PlannedTable(operation=None, read_version=version, definition=_defined(transaction))
        case "replace":
            definition, _, files = _replacement(new, place, transaction)
            return PlannedTable(operation=_name(mode), read_version=version, definition=definition, removed_files=len(files))


def create_table(new: NewTable, place: TablePlace, *, mode: CreateMode = "error", origin: Origin | None = None) -> CommitResult:
    """Create the table, empty.

    Args:
        new: The table.
        place: Where to create it.
        mode: What to do if the table exists: fail, leave it unchanged, or replace it (its history stays).
        origin: The task run that requests it.

    Raises:
        TableExistsError: The table exists, and the mode is ``error``.
        LocationNotEmptyError: There is no table, but there are files.
        InvalidTableDefinitionError: The definition is invalid.
        InvalidTablePropertyError: A property does not exist, or its value is invalid.
        UnsupportedWriterFeatureError: The table would need a feature that is not supported here.
        AppendOnlyTableError: The table to be replaced is append-only.
        CommitConflictError: The table to be replaced was changed meanwhile.
    """
    if mode != "error":
        try:
            transaction = place.latest()
        except TableNotFoundError:
            pass
        else:
            return _replace(new, place, transaction, origin) if mode == "replace" else _left_alone(place, transaction)
    try:
        return _create(new, place, mode, origin)
    except TableExistsError:
        if mode == "error":
            raise
        return create_table(new, place, mode=mode, origin=origin)  # another writer has created it meanwhile


def _create(new: NewTable, place: TablePlace, mode: CreateMode, origin: Origin | None) -> CommitResult:
    definition, clustering = _of_place(new, place)
    transaction = place.create(definition.metadata, definition.protocol)
    _check_empty(place)
    return transaction.commit(domains=clustering, operation=_operation(_name(mode), new, definition.metadata), origin=origin)


def _check_empty(place: TablePlace) -> None:
    file = place.stray_file()
    if file is None:
        return
    try:
        transaction = place.latest()
    except TableNotFoundError:
        raise LocationNotEmptyError(table=place.uri, file=file) from None
    raise TableExistsError(table=place.uri, version=transaction.read_version)  # the stray file may belong to it


def _replace(new: NewTable, place: TablePlace, transaction: OptimisticTransaction, origin: Origin | None) -> CommitResult:
    snapshot = transaction.snapshot
    definition, clustering, files = _replacement(new, place, transaction)
    transaction.set_metadata(definition.metadata)
    if definition.protocol != snapshot.protocol:
        transaction.set_protocol(definition.protocol)
    return transaction.commit(
        removes=removes_of(files, deletion_timestamp=place.now, data_change=True) if len(files) else NO_REMOVES,
        domains=clustering,
        operation=_operation(_name("replace"), new, definition.metadata),
        origin=origin,
    )


def _replacement(
    new: NewTable, place: TablePlace, transaction: OptimisticTransaction
) -> tuple[Definition, tuple[DomainMetadata, ...], pa.Table]:
    """The table that replaces the existing one, its clustering domain, and the files to remove (``ADD_FILE``)."""
    before = _defined(transaction)
    definition, clustering = _of_place(new, place, before, transaction.snapshot.domains)
    transaction.read_whole_table()
    files = transaction.files()
    if len(files) and is_append_only(before.metadata.configuration):
        raise AppendOnlyTableError(table=place.uri)
    return definition, clustering, files


def _of_place(
    new: NewTable,
    place: TablePlace,
    replaced: Definition | None = None,
    domains: Mapping[str, DomainMetadata] = MappingProxyType({}),
) -> tuple[Definition, tuple[DomainMetadata, ...]]:
    return table_definition(new, place.uri, place.now, replaced, domains, identity=place.identity)


def _defined(transaction: OptimisticTransaction) -> Definition:
    """The definition of the table that the transaction read."""
    return Definition(metadata=transaction.snapshot.metadata, protocol=transaction.snapshot.protocol)


def _name(mode: CreateMode) -> str:
    return "CREATE OR REPLACE TABLE" if mode == "replace" else "CREATE TABLE"


def _left_alone(place: TablePlace, transaction: OptimisticTransaction) -> CommitResult:
    version = transaction.read_version
    return CommitResult(version=version, timestamp=place.now, read_version=version, committed=False)


def table_definition(
    new: NewTable,
    table: str,
    now: int,
    replaced: Definition | None = None,
    domains: Mapping[str, DomainMetadata] = MappingProxyType({}),
    *,
    identity: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Definition, tuple[DomainMetadata, ...]]:
    """The definition of the new table, and the metadata domains for its clustering.

    Properties that a managing catalog requires are determined by the place, not by the statement.

    Args:
        new: The table.
        table: URI of the table, for errors.
        now: Milliseconds since the epoch.
        replaced: The table that it replaces.
        domains: The metadata domains of that table, by name.
        identity: The table properties that identify the table in the catalog that manages it.

    Raises:
        InvalidTableDefinitionError: The definition is invalid.
        InvalidTablePropertyError: A property does not exist, or its value is invalid.
        UnsupportedWriterFeatureError: The table would need a feature that is not supported here.
    """
    wanted = requested(new.properties)
    if replaced:
        check_timestamps_kept(replaced.protocol, wanted.configuration)
    kept = required_by_catalog(identity, replaced.protocol if replaced else None)
    metadata = Metadata(
        id=replaced.metadata.id if replaced else str(uuid.uuid4()),
        schema_string=schema_json(new.schema),
        partition_columns=new.partition_by(),
        configuration={**wanted.configuration, **kept, **_constraints(new, table)},
        name=new.name,
        description=new.description,
        created_time=now,
    )
    features = (CLUSTERING_FEATURE,) if new.clustering_columns else ()
    definition = new_definition(table, metadata, wanted, features=features, replaced=replaced)
    if not new.clustering_columns:
        old = domains.get(CLUSTERING)
        return definition, () if old is None else (replace(old, removed=True),)
    try:
        columns = _paths(new.clustering_columns)
        check_clustering(table, definition.metadata, columns)
        return definition, (clustering_domain(definition.schema, columns),)
    except Refusal as refusal:
        raise InvalidTableDefinitionError(table=table, reasons=(refusal.detail,)) from refusal


def _constraints(new: NewTable, table: str) -> dict[str, str]:
    """The constraints as table properties; the empty table satisfies them all."""
    for name, sql in new.constraints.items():
        columns = columns_in(sql)
        if columns is None:
            raise InvalidTableDefinitionError(table=table, reasons=(f"the constraint {name} ({sql!r}) is not a SQL condition",))
        try:
            for path in columns:
                find_column(new.schema, path)
        except Refusal as refusal:
            raise InvalidTableDefinitionError(table=table, reasons=(f"the constraint {name}: {refusal.detail}",)) from refusal
    return {f"{CONSTRAINT_PREFIX}{name.lower()}": sql for name, sql in new.constraints.items()}


def _paths(names: Sequence[str]) -> tuple[ColumnPath, ...]:
    return tuple(map(parse_path, names))


def _operation(name: str, new: NewTable, metadata: Metadata) -> Operation:
    clustering = [path_text(path) for path in _paths(new.clustering_columns)]
    return Operation(
        name=name,
        parameters={
            "partitionBy": list(metadata.partition_columns),
            "clusterBy": clustering,
            "description": metadata.description,
            "isManaged": "false",
            "properties": dict(metadata.configuration),
        },
        changes_data=name != "CREATE TABLE",
    )
