"""What a table becomes, when a write makes it or gives it the columns of its rows."""

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
    """A table that holds these rows, and the metadata domains that its commit sets.

    All columns may be NULL, as in a table that Delta-Spark makes from a DataFrame.

    Args:
        statement: Names the partition or clustering columns, and the properties.
        rows: The schema of the rows.
        now: Milliseconds since the epoch.
        replaced: The table that it takes the place of.
        identity: The properties by which a catalog knows the table that it manages there.

    Raises:
        SchemaMismatchError: Rows that no table can hold, or partition columns that are none.
        InvalidTablePropertyError: A property does not exist or cannot have its value.
        UnsupportedWriterFeatureError: A property switches on what is not known here.
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
    """The table with the columns of the rows, partitioned as the statement requests, and the domains that its commit sets.

    As in Delta, properties stay, and so does the clustering unless the statement names another or partitions the table.

    Raises:
        SchemaMismatchError: Rows that no table can hold, or partition or clustering columns that are none.
        UnsupportedWriterFeatureError: The columns need what is not known here.
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
    """A table's version, as what defines it."""
    return Definition(metadata=snapshot.metadata, protocol=snapshot.protocol)


def _clustering(statement: WriteStatement, snapshot: Snapshot) -> tuple[ColumnPath, ...]:
    """The columns that the table is to be clustered by. Raises ``Refusal`` for a text that is no path."""
    if statement.cluster_by:
        with refusals(statement.table, "WRITE"):
            return tuple(map(parse_path, statement.cluster_by))
    if statement.partition_by:
        return ()
    return clustering_columns(snapshot.table_uri, definition_of(snapshot).columns, snapshot.domains)
