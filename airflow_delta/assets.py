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
    """The asset of a Delta table; equal for all spellings of the table's URI, or of its name in a catalog.

    The asset of a name and that of the URI of the same table are two: name the table in all DAGs, or in none.

    Args:
        name: The asset's name, such as ``lake.flights``; its URI when None.
        table: URI of the table's root, or its name, ``sales.orders``, in the connection's catalog. With ``watch`` it is what
            the triggerer reads, as it is written here.
        delta_conn_id: The ``delta`` connection, whose catalog has the name; with ``watch`` the triggerer reads by it.
        watch: Whether the triggerer watches the table for commits of any writer: DAGs that are scheduled on the asset then run
            for each new range of commits. Operators that name the same asset would announce their commits a second time, so
            give them ``emit="never"``.
        group: The asset's group.
        extra: The asset's own extra.
        watcher: What ``DeltaCommitEventTrigger`` takes besides these: ``start``, ``poll_interval``, ...

    Raises:
        InvalidStatementError: The table is no text, or its URI holds credentials, or names no bucket, or has other characters
            than ASCII, which Airflow does not store, or its local path has a ``?`` or ``#``, behind which Airflow drops the
            rest; or a watcher's argument is given without ``watch``; or the name is a path, and the table none, as in the
            wrong order.
        InvalidTableNameError: It is neither a URI nor a name of two or three parts.
        RelativePathError: It is a relative path, which would be another asset on each machine.
        AirflowFeatureMissingError: The table lies on Azure, and Airflow 3.0 would forget its container.
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
    if not uri.isascii():  # the DAG would be parsed, and then not be stored, which only the DAG processor's log says
        detail = f"an asset needs a path of ASCII characters, as Airflow stores no other URIs, found {uri}"
        raise InvalidStatementError(statement="delta_asset", detail=f"{detail}; give the table a name in a catalog, or move it")
    name = name or uri
    watchers = []
    if watch:
        from airflow_delta.triggers.commit_event import DeltaCommitEventTrigger  # noqa: PLC0415 - most DAG files watch nothing

        trigger = DeltaCommitEventTrigger(table=table, delta_conn_id=delta_conn_id, asset=name, **watcher)
        watchers.append(AssetWatcher(name=f"{name}: commits", trigger=trigger))
    asset = Asset(name=name, uri=uri, group=group, extra=extra, watchers=watchers)
    # Airflow 3.0 takes a container for a user's name, and drops it: tables of two containers would be one asset.
    check_feature(f"an asset of {uri}", is_there=not uri.startswith("abfs") or asset.uri == uri, needed="3.1")
    if asset.uri != uri:
        detail = (
            f"an asset needs a path without ? and #, found {uri}, of which Airflow keeps {asset.uri}: that is another table"
        )
        raise InvalidStatementError(statement="delta_asset", detail=detail)
    return asset


def create_asset(*, table: str, name: str | None = None, extra: dict[str, Any] | None = None) -> Asset:
    """The factory that the provider names: the asset of a table by its URI."""
    return delta_asset(name, table, extra=extra)


def to_openlineage(asset: Asset, lineage_context: Any) -> Dataset | None:  # noqa: ARG001 - the converter's signature
    """The table as OpenLineage names datasets: the storage as namespace, the path in it as name; None for other storages."""
    from airflow.providers.common.compat.openlineage.facet import Dataset  # noqa: PLC0415 - dear, and rarely used

    namespace_and_name = lineage_name(asset.uri)
    return None if namespace_and_name is None else Dataset(*namespace_and_name)


def lineage_name(table: str) -> tuple[str, str] | None:
    """OpenLineage's namespace and name of the table at a URI; None where its naming does not cover the storage."""
    if scheme_of(table) == "file":
        return "file", str(local_path(table))
    uri = sanitize_uri(table)
    location = ObjectLocation.from_uri(uri)
    if location is None:
        return None
    return uri.removesuffix(f"/{location.key}"), location.key or "/"
