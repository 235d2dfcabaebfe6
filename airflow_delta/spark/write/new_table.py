"""The definition of a table that a write creates, or gives the columns of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from airflow_delta.core.actions import DomainMetadata
from airflow_delta.core.errors import InvalidTableDefinitionError, SchemaMismatchError
from airflow_delta.core.schema import StructType, schema_json
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import WriteStatement
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.table_changes.clustering import CLUSTERING_FEATURE, clustering_columns, clustering_domain
from airflow_delta.core.table_changes.column_path import ColumnPath, parse_path
from airflow_delta.core.table_changes.create import table_definition
from airflow_delta.core.table_changes.definition import Definition, changed_definition
from airflow_delta.core.table_changes.definition_rules import check_clustering
from airflow_delta.core.table_changes.refusal import refusals
from airflow_delta.core.table_features.feature import CLUSTERING
from airflow_delta.spark.statement.schema_evolution import as_new

Domains = tuple[DomainMetadata, ...]


def new_table(
    statement: WriteStatement,
    rows: StructType,
    *,
    now: int,
    replaced: Snapshot | None = None,
    identity: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Definition, Domains]:
    """The definition of a table for these rows, and the metadata domains that its commit sets.

    All columns are nullable, as in a table that Delta Spark creates from a DataFrame.

    Args:
        statement: Gives the partition or clustering columns, and the properties.
        rows: The schema of the rows.
        now: Milliseconds since the epoch.
        replaced: The table that it replaces.
        identity: The table properties that identify the table in the catalog that manages it.

    Raises:
        SchemaMismatchError: A table cannot hold such rows, or partition columns do not exist.
        InvalidTablePropertyError: A property does not exist, or its value is invalid.
        UnsupportedWriterFeatureError: A property enables a feature that is not supported here.
    """
    new = NewTable(
        schema=as_new(rows),
        partition_columns=statement.partition_by,
        clustering_columns=statement.cluster_by,
        properties=statement.properties,
    )
    before = (definition_of(replaced), replaced.domains) if replaced else ()
    try:
        return table_definition(new, statement.table, now, *before, identity=identity)
    except InvalidTableDefinitionError as error:
        raise SchemaMismatchError(table=statement.table, differences=error.reasons) from error


def overwritten_table(statement: WriteStatement, rows: StructType, snapshot: Snapshot) -> tuple[Definition, Domains]:
    """The table's definition with the columns of the rows, partitioned as requested, and the domains that its commit sets.

    As in Delta, properties are kept, and so is clustering unless the statement sets another one or partitions the table.

    Raises:
        SchemaMismatchError: A table cannot hold such rows, or partition or clustering columns do not exist.
        UnsupportedWriterFeatureError: The columns need a feature that is not supported here.
    """
    table, before, schema = statement.table, definition_of(snapshot), as_new(rows)
    metadata = replace(
        before.metadata,
        schema_string=schema_json(schema),
        partition_columns=tuple(found.name if (found := schema.find(name)) else name for name in statement.partition_by),
    )
    clustered = _clustering(statement, snapshot)
    try:
        with refusals(table, "WRITE"):
            features = (CLUSTERING_FEATURE,) if clustered else ()
            after = changed_definition(table, before, metadata, features=features)
            check_clustering(table, after.metadata, clustered)
            if clustered:
                return after, (clustering_domain(after.columns, clustered),)
    except InvalidTableDefinitionError as error:
        raise SchemaMismatchError(table=table, differences=error.reasons) from error
    old = snapshot.domains.get(CLUSTERING)
    return after, () if old is None else (replace(old, removed=True),)


def definition_of(snapshot: Snapshot) -> Definition:
    """The definition of a version of a table."""
    return Definition(metadata=snapshot.metadata, protocol=snapshot.protocol)


def _clustering(statement: WriteStatement, snapshot: Snapshot) -> tuple[ColumnPath, ...]:
    """The clustering columns that the table will have. Raises ``Refusal`` for an invalid path."""
    if statement.cluster_by:
        with refusals(statement.table, "WRITE"):
            return tuple(map(parse_path, statement.cluster_by))
    if statement.partition_by:
        return ()
    return clustering_columns(snapshot.table_uri, definition_of(snapshot).columns, snapshot.domains)
