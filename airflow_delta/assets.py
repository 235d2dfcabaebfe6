"""Delta tables as Airflow's assets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import airflow_delta.airflow_extra  # noqa: F401

# isort: split
from airflow.sdk import Asset, AssetWatcher

from airflow_delta.catalogs.table_name import TableName, is_path
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.validation import require_text
from airflow_delta.core.storage.object_location import ObjectLocation
from airflow_delta.core.storage.table_uri import absolute, is_relative, local_path, scheme_of
from airflow_delta.hooks.airflow_features import check_feature
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.watch.asset_uri import named_uri, sanitize_uri

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset

__all__ = ["create_asset", "delta_asset", "lineage_name", "sanitize_uri", "to_openlineage"]


def delta_asset(
    name: str | None,
    table: str,
    *,
    delta_conn_id: str = DeltaHook.default_conn_name,
    watch: bool = False,
    group: str = "delta",
    extra: dict[str, Any] | None = None,
    **watcher: Any,
) -> Asset:
    """The asset of a Delta table; every spelling of the table's URI, or of its name in a catalog, gives the same asset.

    A table's catalog name and its URI give two different assets: use the same one in all DAGs.

    Args:
        name: The asset's name, such as ``lake.flights``; its URI when None.
        table: URI of the table's root, or its name in the connection's catalog, such as ``sales.orders``. With ``watch``, the
            triggerer opens the table by exactly this text.
        delta_conn_id: The ``delta`` connection whose catalog has the name; with ``watch``, the triggerer reads the table
            through it.
        watch: Whether the triggerer watches the table for commits by any writer: DAGs that are scheduled on the asset then run
            for each new range of commits. Operators with the same asset would announce their commits a second time, so give
            them ``emit="never"``.
        group: The asset's group.
        extra: The asset's ``extra``.
        watcher: Further arguments of ``DeltaCommitEventTrigger``, such as ``start`` and ``poll_interval``; they need ``watch``.

    Raises:
        InvalidStatementError: The table is not a string; its URI holds credentials, names no bucket, or has non-ASCII
            characters, which Airflow does not store; its local path has a ``?`` or ``#``, after which Airflow drops the rest;
            an argument of the watcher is given without ``watch``; or ``name`` is a path and ``table`` is not, as when they are
            swapped.
        InvalidTableNameError: The table is neither a URI nor a name of two or three parts.
        RelativePathError: The table is a relative path, which would be a different asset on each machine.
        AirflowFeatureMissingError: The table is on Azure, and this is Airflow 3.0, which drops the container from the URI.
    """
    require_text("delta_asset", "table", table)
    if watcher and not watch:
        raise InvalidStatementError(statement="delta_asset", detail=f"{', '.join(sorted(watcher))} expects watch=True")
    if is_path(table):
        uri = sanitize_uri(absolute(table, "an asset has one URI on all machines"))
    else:
        if name is not None and not is_relative(name):
            detail = f"the name comes first, and then the table: delta_asset({table[:100]!r}, {name[:100]!r})"
            raise InvalidStatementError(statement="delta_asset", detail=detail)
        uri = named_uri(TableName.parse(table), delta_conn_id)
    if not uri.isascii():  # Airflow would parse the DAG but not store it, which only the DAG processor's log shows
        detail = f"an asset needs a path of ASCII characters, as Airflow stores no other URIs, found {uri}"
        raise InvalidStatementError(statement="delta_asset", detail=f"{detail}; give the table a name in a catalog, or move it")
    name = name or uri
    watchers = []
    if watch:
        from airflow_delta.triggers.commit_event import DeltaCommitEventTrigger  # noqa: PLC0415 - most DAG files watch nothing

        trigger = DeltaCommitEventTrigger(table=table, delta_conn_id=delta_conn_id, asset=name, **watcher)
        watchers.append(AssetWatcher(name=f"{name}: commits", trigger=trigger))
    asset = Asset(name=name, uri=uri, group=group, extra=extra, watchers=watchers)
    # Airflow 3.0 takes the container for a user name and drops it: tables in two containers would be the same asset.
    check_feature(f"an asset of {uri}", is_there=not uri.startswith("abfs") or asset.uri == uri, needed="3.1")
    if asset.uri != uri:
        detail = (
            f"an asset needs a path without ? and #, found {uri}, of which Airflow keeps {asset.uri}: that is another table"
        )
        raise InvalidStatementError(statement="delta_asset", detail=detail)
    return asset


def create_asset(*, table: str, name: str | None = None, extra: dict[str, Any] | None = None) -> Asset:
    """The asset of a table; Airflow calls this for the URI schemes that the provider registers."""
    return delta_asset(name, table, extra=extra)


def to_openlineage(asset: Asset, lineage_context: Any) -> Dataset | None:  # noqa: ARG001 - the converter's signature
    """The asset as an OpenLineage dataset: its namespace is the storage, its name the path; None for other storages."""
    from airflow.providers.common.compat.openlineage.facet import Dataset  # noqa: PLC0415 - slow to import, rarely used

    namespace_and_name = lineage_name(asset.uri)
    return None if namespace_and_name is None else Dataset(*namespace_and_name)


def lineage_name(table: str) -> tuple[str, str] | None:
    """OpenLineage's namespace and name of the table at a URI; None if OpenLineage's naming does not cover the storage."""
    if scheme_of(table) == "file":
        return "file", str(local_path(table))
    uri = sanitize_uri(table)
    location = ObjectLocation.from_uri(uri)
    if location is None:
        return None
    return uri.removesuffix(f"/{location.key}"), location.key or "/"
