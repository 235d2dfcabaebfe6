"""The statements that change a table's definition; each is one commit, named as Delta names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_delta.core.actions import Origin
from airflow_delta.core.schema import DataType
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_changes import column_changes, property_changes
from airflow_delta.core.table_changes.columns import NewColumn, Position
from airflow_delta.core.table_changes.refusal import refusals
from airflow_delta.core.table_changes.row_tracking import backfill
from airflow_delta.core.table_changes.steps import Plan, Step, constraint, planned, properties_set, support_row_tracking
from airflow_delta.core.table_changes.table_state import Decision, TableState
from airflow_delta.core.transaction.commit_result import CommitResult
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChanges:
    """Changes of a table's definition: every method reads the latest version and makes one commit.

    A change is rebased over commits that only write data. It conflicts with another change of the table's metadata or protocol
    (``MetadataChangedError``, ``ProtocolChangedError``): if run again, it is decided on the table as it is then. If the table
    already is as requested, nothing is committed.

    Every method raises ``InvalidTableChangeError`` if the table's present state does not allow the change,
    ``InvalidTableDefinitionError`` if the resulting definition is invalid, ``UnsupportedWriterFeatureError`` if it needs a
    feature that is not supported here, and what ``OptimisticTransaction.commit`` raises.

    Attributes:
        start: Starts a transaction on the given snapshot, or on the latest version.
        origin: The task run that requests the changes.
    """

    start: Callable[[Snapshot | None], OptimisticTransaction]
    origin: Origin | None = None

    # -- columns

    def add_columns(self, *columns: NewColumn) -> CommitResult:
        """Add columns, at any depth; they are NULL in existing rows."""
        return self._commit("ADD COLUMNS", lambda table: column_changes.add_columns(table, columns))

    def rename_column(self, path: str, name: str) -> CommitResult:
        """Rename a column; no data file changes. Requires column mapping."""
        return self._commit("RENAME COLUMN", lambda table: column_changes.rename_column(table, path, name))

    def drop_columns(self, *paths: str) -> CommitResult:
        """Drop columns; their values stay in data files until these are rewritten. Requires column mapping."""
        return self._commit("DROP COLUMNS", lambda table: column_changes.drop_columns(table, paths))

    def widen_column(self, path: str, to: DataType) -> CommitResult:
        """Widen the type of a column, or of an element, key or value; data files stay. Requires type widening."""
        return self._commit("CHANGE COLUMN", lambda table: column_changes.widen_column(table, path, to))

    def allow_null(self, path: str) -> CommitResult:
        """Allow NULL in a column (``DROP NOT NULL``)."""
        return self._commit("CHANGE COLUMN", lambda table: column_changes.allow_null(table, path))

    def comment_column(self, path: str, comment: str) -> CommitResult:
        """Set the comment of a column."""
        return self._commit("CHANGE COLUMN", lambda table: column_changes.comment_column(table, path, comment))

    def set_default(self, path: str, sql: str | None) -> CommitResult:
        """Set the default of a column, for later rows that do not name it; ``sql`` None drops the default."""
        return self._commit("CHANGE COLUMN", lambda table: column_changes.set_default(table, path, sql))

    def move_column(self, path: str, position: Position) -> CommitResult:
        """Move a column within its struct."""
        return self._commit("CHANGE COLUMN", lambda table: column_changes.move_column(table, path, position))

    def sync_identity(self, path: str, high_water_mark: int) -> CommitResult:
        """Set the high-water mark of an identity column, which the caller has determined from the rows."""
        return self._commit("CHANGE COLUMN", lambda table: column_changes.sync_identity(table, path, high_water_mark))

    # -- properties and features

    def set_properties(self, properties: Mapping[str, str]) -> CommitResult:
        """Set table properties, and add the features that they require to the protocol.

        Enabling row tracking takes more than one commit: first new files get row ids, then existing files.

        Raises:
            InvalidTablePropertyError: A property does not exist, or its value is invalid.
            MissingRecordCountError: Row tracking needs the number of rows of a file, which its statistics lack.
        """
        return self.together(properties_set(properties))

    def unset_properties(self, *names: str, if_exists: bool = False) -> CommitResult:
        """Unset table properties, so that their defaults apply; features stay supported.

        Args:
            names: Names of the properties.
            if_exists: Whether to ignore properties that are not set, rather than fail.
        """
        return self._commit(
            "UNSET TBLPROPERTIES", lambda table: property_changes.unset_properties(table, names, if_exists=if_exists)
        )

    def add_feature(self, name: str) -> CommitResult:
        """Add a table feature to the protocol, and those that it requires."""
        return self.set_properties({f"delta.feature.{name}": "supported"})

    def upgrade_protocol(self, reader_version: int, writer_version: int) -> CommitResult:
        """Require at least these protocol versions; reader version 3 and writer version 7 allow table features."""
        return self._commit(
            "UPGRADE PROTOCOL", lambda table: property_changes.upgrade_protocol(table, reader_version, writer_version)
        )

    # -- rules and layout

    def add_constraint(self, name: str, sql: str, *, verified: Snapshot | None = None) -> CommitResult:
        """Add a CHECK constraint that must be TRUE for every row (NULL violates it).

        Args:
            name: Name of the constraint.
            sql: A condition in Spark SQL.
            verified: The version whose rows the caller has all checked. Without it they are read and checked here, which only
                works for conditions that ``Snapshot.to_arrow`` can evaluate.

        Raises:
            ConstraintViolatedError: Existing rows violate it.
            ConcurrentAppendError: Rows were added meanwhile that were not checked.
        """
        return self.together(constraint(name, sql, verified=verified), basis=verified)

    def drop_constraint(self, name: str, *, if_exists: bool = False) -> CommitResult:
        """Drop a CHECK constraint."""
        return self._commit("DROP CONSTRAINT", lambda table: property_changes.drop_constraint(table, name, if_exists=if_exists))

    def cluster_by(self, *names: str) -> CommitResult:
        """Cluster files written from now on by these columns, at most four; without names, end clustering."""
        return self._commit("CLUSTER BY", lambda table: property_changes.cluster_by(table, names))

    # -- several changes

    def together(self, *steps: Step, basis: Snapshot | None = None) -> CommitResult:
        """Make the changes in order, in one commit: all of them, or none.

        Args:
            steps: The changes. If one needs row ids, the commits that assign them come first.
            basis: The version to decide on; the latest one when None.
        """
        transaction = self.start(basis)
        plan = self._planned(transaction, steps)
        if any(step.needs_row_ids for step in steps):
            # The token identifies the last commit: after a kill, work whose earlier commit had it would count as done.
            preparing = replace(self, origin=replace(self.origin, token=None) if self.origin else None)
            preparing.together(support_row_tracking())
            backfill(lambda: self.start(None), preparing.origin)
            transaction = self.start(basis)
            plan = self._planned(transaction, steps)
        before = transaction.snapshot
        if plan.table.metadata != before.metadata:
            transaction.set_metadata(plan.table.metadata)
        if plan.table.protocol != before.protocol:
            transaction.set_protocol(plan.table.protocol)
        return transaction.commit(
            domains=[domain for name, domain in plan.table.domains.items() if domain != before.domains.get(name)],
            operation=Operation(name=plan.operation, parameters=plan.parameters, changes_data=False),
            origin=self.origin,
        )

    def plan(self, *steps: Step) -> Plan:
        """What the changes would make of the table; nothing is committed. Raises as ``together``."""
        return self._planned(self.start(None), steps)

    def _planned(self, transaction: OptimisticTransaction, steps: Sequence[Step]) -> Plan:
        plan = planned(TableState.from_snapshot(transaction.snapshot), steps)
        for step in steps:
            if step.check:
                with refusals(transaction.snapshot.table_uri, step.operation):
                    step.check(transaction)
        return plan

    def _commit(self, operation: str, decide: Decision) -> CommitResult:
        return self.together(Step(operation=operation, decide=decide))
