"""The asset event of a statement's commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from airflow.sdk import Asset, BaseOperator, Context

from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.statements import OperationResult
from airflow_delta.core.statements.fields import shortened
from airflow_delta.hooks.checked_arguments import CheckedArguments
from airflow_delta.hooks.xcoms import xcom_value
from airflow_delta.watch.asset_uri import name_of_asset, sanitize_uri

Emit = Literal["on_commit", "always", "never"]
"""When a task that succeeds announces its asset: when it has a commit that changes the table, in any case, or not at all."""

MAINTENANCE = frozenset({"COMPUTE STATS", "MAINTENANCE", "OPTIMIZE", "REORG", "VACUUM"})
"""Operations whose commits change neither rows nor columns: a DAG that they start, and that starts them, would never end."""


def require_asset(operator: CheckedArguments, asset: object) -> None:
    """Raise ``InvalidStatementError`` for what is no asset, such as its name: an event would be lost behind the commit."""
    if not isinstance(asset, Asset):
        raise operator.invalid(f"asset must be one that delta_asset(name, table) returns, found {shortened(asset)}")


def declared(others: Any, asset: Asset | None) -> list[Any]:
    """The outlets or inlets of an operator with its asset among them: Airflow knows from the beginning whose it is."""
    given = list(others) if isinstance(others, Sequence) else [] if others is None else [others]
    return given if asset is None or any(_is(other, asset) for other in given) else [*given, asset]


def emit_asset_events(
    operator: BaseOperator,
    result: OperationResult,
    context: Context,
    *,
    asset: Asset | None,
    emit: Emit,
    partition_keys: bool,
    versions: Sequence[int] = (),
) -> None:
    """Describe the commit in the asset's event; where there is to be no event, remove the asset from the task's outlets.

    Airflow makes an event of each outlet that a task has when it succeeds, whether or not it has an extra. The list of outlets
    is replaced, never changed: mapped tasks share it.

    Args:
        operator: Of the task.
        result: What the event describes.
        context: Airflow's context of the task run.
        asset: Of the table; None for no event.
        emit: When there is an event.
        partition_keys: Whether the versions are keys of partitions: Airflow then makes an event of each.
        versions: All that the task has committed to the asset's table; none where that of the result is the only one.
    """
    if asset is None:
        return
    if emit == "never" or (emit == "on_commit" and not is_change(result)):
        operator.outlets = [outlet for outlet in operator.outlets if not _is(outlet, asset)]
        return
    event = context["outlet_events"][asset]
    event.extra = xcom_value({"delta": _serialized(result, context)})
    if partition_keys and result.committed:
        event.add_partitions([str(version) for version in versions or [result.version]])


def is_asset_of(asset: Asset, table: str, published: Mapping[str, Any] | None) -> bool:
    """Whether the asset is that of a table.

    Args:
        asset: By the table's place or by its name.
        table: URI of the table's root.
        published: The entry ``catalog`` of the result's details: what became of the table's name; None where it has none.
    """
    named = name_of_asset(asset.uri)
    if named is None or published is None:
        return named is None and sanitize_uri(table) == asset.uri
    (_, wanted), found = named, TableName.parse(published["name"].lower())
    is_catalog = None in {wanted.catalog, found.catalog} or wanted.catalog == found.catalog
    return is_catalog and (wanted.schema, wanted.table) == (found.schema, found.table)


def is_change(result: OperationResult) -> bool:
    """Whether rows or columns of the table are others now."""
    return result.committed and result.operation not in MAINTENANCE


def _serialized(result: OperationResult, context: Context) -> dict[str, Any]:
    ti = context["ti"]
    return {
        "table": sanitize_uri(result.table),
        "version": result.version,
        "read_version": result.read_version,
        "operation": result.operation,
        "committed": result.committed,
        "metrics": {name: value for name, value in result.metrics.items() if isinstance(value, int)},
        "dag_id": ti.dag_id,
        "task_id": ti.task_id,
        "run_id": ti.run_id,
    }


def _is(outlet: Any, asset: Asset) -> bool:
    return isinstance(outlet, Asset) and (outlet.name, outlet.uri) == (asset.name, asset.uri)
