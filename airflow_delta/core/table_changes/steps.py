"""Steps: single changes of any table; several can be one commit."""

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
"""What the history calls several changes in one commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A change.

    Attributes:
        operation: Delta's name of it.
        decide: What it makes of a table.
        check: Whether the rows that are there allow it; it reads them through the transaction.
        needs_row_ids: Whether all rows must have ids before.
    """

    operation: str
    decide: Decision
    check: Check | None = None
    needs_row_ids: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What some steps, one after the other, make of a table.

    Attributes:
        operation: Name of the commit.
        parameters: Of the operation.
        table: The table after them.
        changes: Operation and parameters of each step, in order.
    """

    operation: str
    parameters: Mapping[str, Any]
    table: TableState
    changes: tuple[Mapping[str, Any], ...]


def planned(before: TableState, steps: Sequence[Step]) -> Plan:
    """What the steps make of the table; rows are not looked at.

    Raises:
        InvalidTableChangeError: The table, as it is or as earlier steps leave it, does not allow one.
        InvalidTableDefinitionError: No table could be like the result of one.
        UnsupportedWriterFeatureError: One needs a feature that is not known here.
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
    """A CHECK constraint that is added; the rows are looked at by ``rows_check``, unless those of ``verified`` were."""

    def check(transaction: OptimisticTransaction) -> None:
        transaction.read_whole_table()
        if verified is None:
            rows_check(transaction.snapshot, name, sql)

    return Step(operation="ADD CONSTRAINT", decide=lambda table: property_changes.add_constraint(table, name, sql), check=check)


def properties_set(properties: Mapping[str, str]) -> Step:
    """Table properties that are set; files that are there must be as Iceberg needs them, where one enables compatibility."""
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
    """Give all new rows ids from now on."""
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
