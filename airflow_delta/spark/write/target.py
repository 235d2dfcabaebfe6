"""The table of a WRITE: as it is now, and as its commit leaves it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from airflow_delta.core.actions import DomainMetadata, Metadata
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import SchemaMismatchError, TableExistsError
from airflow_delta.core.log.managed_commits import identifying_properties
from airflow_delta.core.schema import StructType, parse_schema
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import WriteMode, WriteStatement
from airflow_delta.core.table_changes.clustering import clustering_columns
from airflow_delta.core.table_changes.column_path import path_text
from airflow_delta.core.table_changes.definition import Definition
from airflow_delta.core.table_changes.expressions import check_constraints
from airflow_delta.core.table_features.feature import CLUSTERING
from airflow_delta.core.table_features.partition_columns import materialized_columns
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from airflow_delta.spark.constraints.identity import with_marks
from airflow_delta.spark.io.table_files import schema_of
from airflow_delta.spark.statement.schema_evolution import evolved_definition, extended
from airflow_delta.spark.supported_features import ENFORCED, check_rows_writable
from airflow_delta.spark.write.new_table import definition_of, new_table, overwritten_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The table before and after the statement.

    Attributes:
        snapshot: The version that the commit is based on; None if the commit creates the table.
        definition: The table's definition after the commit.
        domains: Metadata domains that the commit sets.
        marks: The last values assigned to identity columns.
    """

    snapshot: Snapshot | None
    definition: Definition
    domains: tuple[DomainMetadata, ...] = ()
    marks: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, log: DeltaLog, statement: WriteStatement, snapshot: Snapshot | None, rows: StructType) -> Target:
        """The target for rows of this schema.

        Raises:
            TableExistsError: The table exists, and the statement is to create it.
            SchemaMismatchError: The rows, the partitioning or the clustering do not fit.
            InvalidTableChangeError: A rule of the table prevents the schema evolution.
            InvalidTablePropertyError: A property of a new table does not exist, or its value is invalid.
            UnsupportedWriterFeatureError: A constraint of the table cannot be enforced.
        """
        target = _target(log, statement, snapshot, rows)
        check_rows_writable(log.table_uri, target.definition.protocol, target.metadata)
        return target

    @property
    def metadata(self) -> Metadata:
        """The table's metadata after the commit, without ``marks``."""
        return self.definition.metadata

    @property
    def schema(self) -> StructType:
        """The columns after the commit."""
        return schema_of(self.metadata)

    @property
    def read_version(self) -> int:
        """The version that the commit is based on; -1 without a table."""
        return -1 if self.snapshot is None else self.snapshot.version

    def at(self, newest: Snapshot) -> Target | None:
        """The same target at a later version; None if the staged files may not be valid there any more.

        Raises:
            UnsupportedReaderFeatureError: The table's rows can no longer be read here.
            UnsupportedWriterFeatureError: A constraint added since cannot be enforced.
        """
        before = None if self.snapshot is None else _described(definition_of(self.snapshot), self.snapshot.domains)
        found = _described(definition_of(newest), newest.domains)
        if before == found:
            return replace(self, snapshot=newest)
        check_rows_writable(newest.table_uri, newest.protocol, newest.metadata)
        if self.snapshot is not None and self.definition != definition_of(self.snapshot):
            return None
        made = {domain.domain: domain for domain in self.domains}
        fits = _required_of_rows(self.definition) == _required_of_rows(definition_of(newest)) and (
            self.snapshot is not None or made.get(CLUSTERING) == newest.domains.get(CLUSTERING)
        )
        return replace(self, snapshot=newest, definition=definition_of(newest), domains=()) if fits else None

    def begin(self, log: DeltaLog) -> OptimisticTransaction:
        """A transaction that gives the table its new definition."""
        metadata, protocol = with_marks(self.metadata, self.marks) if self.marks else self.metadata, self.definition.protocol
        if self.snapshot is None:
            return log.create_transaction(metadata, protocol, enforces=ENFORCED)
        transaction = log.start_transaction(self.snapshot, enforces=ENFORCED)
        if metadata != self.snapshot.metadata:
            transaction.set_metadata(metadata)
        if protocol != self.snapshot.protocol:
            transaction.set_protocol(protocol)
        return transaction


def _target(log: DeltaLog, statement: WriteStatement, snapshot: Snapshot | None, rows: StructType) -> Target:
    if snapshot is not None and statement.mode is WriteMode.CREATE:
        raise TableExistsError(table=log.table_uri, version=snapshot.version)
    if snapshot is None or statement.mode is WriteMode.CREATE_OR_REPLACE:
        identity = identifying_properties(log.store)
        definition, domains = new_table(statement, rows, now=log.clock(), replaced=snapshot, identity=identity)
        return Target(snapshot=snapshot, definition=definition, domains=domains)
    if statement.overwrite_schema:
        definition, domains = overwritten_table(statement, rows, snapshot)
        return Target(snapshot=snapshot, definition=definition, domains=domains)
    _check_layout(statement, snapshot)
    before = definition_of(snapshot)
    if not statement.merge_schema:
        return Target(snapshot=snapshot, definition=before)
    widen = before.metadata.configuration.get("delta.enableTypeWidening", "").lower() == "true"
    # What does not fit is reported with everything else, when the rows are cast to the schema.
    schema = extended(parse_schema(before.metadata.schema_string), rows, widen=widen)
    return Target(snapshot=snapshot, definition=evolved_definition(before, schema, table_uri=log.table_uri))


def _described(definition: Definition, domains: Mapping[str, DomainMetadata]) -> tuple[Definition, DomainMetadata | None]:
    """All of a version that a statement may change besides its rows."""
    return definition, domains.get(CLUSTERING)


def _required_of_rows(definition: Definition) -> tuple[object, ...]:
    """What the table requires of rows already written; other properties may change meanwhile."""
    metadata = definition.metadata
    partitions = materialized_columns(definition.schema, definition.protocol, metadata)
    return metadata.schema_string, metadata.partition_columns, check_constraints(metadata.configuration), partitions


def _check_layout(statement: WriteStatement, snapshot: Snapshot) -> None:
    """Return if the statement specifies no partitioning or clustering, or that of the table; else raise."""
    differences = tuple(
        f"{argument} is ({', '.join(requested)}), but the table is {_layout(verb, found)}; leave {argument} out, "
        "or overwrite the table with overwrite_schema"
        for argument, verb, requested, found in (
            ("partition_by", "partitioned", statement.partition_by, snapshot.partition_columns),
            ("cluster_by", "clustered", statement.cluster_by, _clustered_by(snapshot) if statement.cluster_by else ()),
        )
        if requested and _folded(requested) != _folded(found)
    )
    if differences:
        raise SchemaMismatchError(table=snapshot.table_uri, differences=differences)


def _layout(verb: str, columns: Sequence[str]) -> str:
    return f"{verb} by ({', '.join(columns)})" if columns else f"not {verb}"


def _clustered_by(snapshot: Snapshot) -> tuple[str, ...]:
    columns = clustering_columns(snapshot.table_uri, definition_of(snapshot).columns, snapshot.domains)
    return tuple(map(path_text, columns))


def _folded(names: Iterable[str]) -> list[str]:
    return [name_key(name) for name in names]
