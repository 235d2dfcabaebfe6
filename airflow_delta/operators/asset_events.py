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
"""When a task that succeeds emits an asset event: if its commit changed rows or columns, always, or never."""

MAINTENANCE = frozenset({"COMPUTE STATS", "MAINTENANCE", "OPTIMIZE", "REORG", "VACUUM"})
"""Operations whose commits change neither rows nor columns. Events for them could make a DAG trigger itself without end."""


def require_asset(operator: CheckedArguments, asset: object) -> None:
    """Raise ``InvalidStatementError`` unless it is an asset: for its name, say, the event would be lost after the commit."""
    if not isinstance(asset, Asset):
        raise operator.invalid(f"asset must be one that delta_asset(name, table) returns, found {shortened(asset)}")


def declared(others: Any, asset: Asset | None) -> list[Any]:
    """The outlets or inlets of an operator, including its asset, so that Airflow knows of it when the DAG is parsed."""
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
    """Describe the commit in the asset's event; if there is to be no event, remove the asset from the task's outlets.

    Airflow emits an event for each outlet of a task that succeeds, with or without an extra. The list of outlets is replaced,
    never changed in place, because mapped tasks share it.

    Args:
        operator: The operator of the task.
        result: The result that the event describes.
        context: Airflow's context of the task run.
        asset: The table's asset; None for no event.
        emit: When there is an event.
        partition_keys: Whether the versions become partition keys: Airflow then emits one event per version.
        versions: All versions that the task has committed to the asset's table; empty if there is only the result's version.
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
    """Whether the asset is the asset of a table.

    Args:
        asset: An asset made from the table's URI or from its name in a catalog.
        table: URI of the table's root.
        published: The entry ``catalog`` of the result's details, with the name under which the table was published; None if
            there is no such entry.
    """
    named = name_of_asset(asset.uri)
    if named is None or published is None:
        return named is None and sanitize_uri(table) == asset.uri
    (_, wanted), found = named, TableName.parse(published["name"].lower())
    is_catalog = None in {wanted.catalog, found.catalog} or wanted.catalog == found.catalog
    return is_catalog and (wanted.schema, wanted.table) == (found.schema, found.table)


def is_change(result: OperationResult) -> bool:
    """Whether the commit changed rows or columns of the table."""
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
