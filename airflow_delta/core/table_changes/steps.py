"""Steps: single changes of a table, several of which can be made in one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_changes import property_changes
from airflow_delta.core.table_changes.definition import Definition, changed_definition
from airflow_delta.core.table_changes.iceberg_files import check_files_conform
from airflow_delta.core.table_changes.properties import check_texts
from airflow_delta.core.table_changes.refusal import Refusal, refusals
from airflow_delta.core.table_changes.table_state import Change, Decision, TableState
from airflow_delta.core.table_changes.verification import RowsCheck, check_rows
from airflow_delta.core.table_features.feature import columns_of
from airflow_delta.core.table_features.iceberg_compat import compat_versions, enables_compatibility
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction

Check = Callable[[OptimisticTransaction], None]

ALTER_TABLE = "ALTER TABLE"
"""The operation's name in the history if one commit makes several changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A change.

    Attributes:
        operation: Delta's name of the operation.
        decide: Computes the change for a table.
        check: Checks whether existing rows allow it, reading them through the transaction.
        needs_row_ids: Whether all rows must have row ids before.
    """

    operation: str
    decide: Decision
    check: Check | None = None
    needs_row_ids: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What several steps, in order, make of a table.

    Attributes:
        operation: Operation name of the commit.
        parameters: Parameters of the operation.
        table: The table after all steps.
        changes: Operation and parameters of each step, in order.
    """

    operation: str
    parameters: Mapping[str, Any]
    table: TableState
    changes: tuple[Mapping[str, Any], ...]


def planned(before: TableState, steps: Sequence[Step]) -> Plan:
    """What the steps make of the table; existing rows are not checked.

    Raises:
        InvalidTableChangeError: The table's state, present or after earlier steps, does not allow a step.
        InvalidTableDefinitionError: The result of a step is invalid.
        UnsupportedWriterFeatureError: A step needs a feature that is not supported here.
    """
    table = before
    changes: list[Mapping[str, Any]] = []
    for step in steps:
        with refusals(table.uri, step.operation):
            if step.check and table.schema != before.schema:
                raise Refusal("rows can only be checked against existing columns", "make it the first change")
            change = step.decide(table)
            table = _after(table, change)
        changes.append({"operation": step.operation, "parameters": dict(change.parameters)})
    if len(changes) == 1:
        return Plan(operation=steps[0].operation, parameters=changes[0]["parameters"], table=table, changes=tuple(changes))
    return Plan(operation=ALTER_TABLE, parameters={"changes": changes}, table=table, changes=tuple(changes))


def constraint(name: str, sql: str, *, verified: Snapshot | None = None, rows_check: RowsCheck = check_rows) -> Step:
    """The step that adds a CHECK constraint; ``rows_check`` checks existing rows, except those of ``verified``."""

    def check(transaction: OptimisticTransaction) -> None:
        transaction.read_whole_table()
        if verified is None:
            rows_check(transaction.snapshot, name, sql)

    return Step(operation="ADD CONSTRAINT", decide=lambda table: property_changes.add_constraint(table, name, sql), check=check)


def properties_set(properties: Mapping[str, str]) -> Step:
    """The step that sets properties; if one enables Iceberg compatibility, existing files are checked."""
    check_texts(properties)

    def decide(table: TableState) -> Change:
        return property_changes.set_properties(table, properties)

    def check(transaction: OptimisticTransaction) -> None:
        before = TableState.from_snapshot(transaction.snapshot)
        after = _after(before, decide(before))
        versions = compat_versions(after.metadata.configuration)
        if set(versions) - set(compat_versions(before.configuration)):
            transaction.read_whole_table()
            definition = Definition(metadata=after.metadata, protocol=after.protocol)
            check_files_conform(transaction.snapshot, definition, versions[0])

    return Step(
        operation="SET TBLPROPERTIES",
        decide=decide,
        check=check if enables_compatibility(properties) else None,
        needs_row_ids=property_changes.enables_row_tracking(properties),
    )


def support_row_tracking() -> Step:
    """The step that assigns row ids to all new rows from now on."""
    return Step(operation="UPGRADE PROTOCOL", decide=property_changes.support_row_tracking)


def _after(table: TableState, change: Change) -> TableState:
    before = Definition(metadata=table.metadata, protocol=table.protocol)
    after = changed_definition(table.uri, before, change.metadata, change.wanted, features=change.features)
    return TableState(
        uri=table.uri,
        metadata=after.metadata,
        protocol=after.protocol,
        schema=columns_of(after.metadata, after.protocol),
        domains={**table.domains, **{domain.domain: domain for domain in change.domains}},
    )
