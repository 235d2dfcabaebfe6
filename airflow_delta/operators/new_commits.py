"""The versions of a table that a DAG has not processed yet."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import Asset, BaseOperator, Context

from airflow_delta.hooks.airflow_features import HAS_STATE_STORES, NEVER_EXPIRE
from airflow_delta.hooks.checked_arguments import CheckedArguments
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.state_file import state_file, task_state
from airflow_delta.hooks.xcoms import push_xcom
from airflow_delta.operators.asset_events import declared, require_asset
from airflow_delta.watch.asset_uri import name_of_asset, sanitize_uri
from airflow_delta.watch.start import Start

if TYPE_CHECKING:
    from airflow_delta.core.storage.log_store import LogStore

STATE_KEY = "airflow_delta.due"

_TABLE_ID = "table_id"  # only in the stored value

_LONGEST_KEY = 512
"""Most characters of a key in Airflow's state store; the ids of a DAG and of a task may have 250 each."""


class DeltaNewCommitsOperator(CheckedArguments, BaseOperator):
    """Find the versions of a table that this DAG has not processed: those after the last one that a successful run processed.

    Use it as the first task of a DAG that reacts to commits. The events that start such a DAG may arrive twice, late, together
    or not at all; this task ignores them and reads the table's log. The versions that a run gets count as processed once the
    whole run has succeeded; if it fails, the next run gets them again. A cleared run gets its own versions again, unless its
    task now reads another table, or the table was deleted and created again. So every version is processed at least once, and
    exactly once if ``max_active_runs`` is 1.

    The return value is a dict, and each of its values is also an XCom: ``table``; ``from_version`` and ``to_version``, the
    first and the last new version; ``previous_version``, the version before them; ``gap``, whether commits among them were
    cleaned up; ``reset``, whether the table was created again since. The XCom ``delta_version`` is ``to_version``: read the
    table at that version, so that later commits do not matter. If there is nothing new, or only rearranged files, the task and
    its downstream tasks are skipped.

    Args:
        asset: The table's asset, which becomes an inlet of the task: Airflow keeps the task's progress in the asset's state
            store. A mapped operator must have it in ``inlets``, too.
        table: URI of the table's root, its path below the connection's table root, or its name in the connection's catalog
            (templated). Default: the asset's table.
        delta_conn_id: The ``delta`` connection (templated).
        start: What the very first run gets: all versions (``"earliest"``), no version (``"latest"``), or those from a number on
            (templated).
        retry_policy: Which errors are retried. Default: those that another try may overcome.
    """

    template_fields: Sequence[str] = ("table", "delta_conn_id", "start")
    argument_types: ClassVar[Mapping[str, Any]] = {"delta_conn_id": str, "start": Start}

    def __init__(
        self,
        *,
        asset: Asset,
        table: str | None = None,
        delta_conn_id: str = DeltaHook.default_conn_name,
        start: Start | str = "earliest",
        inlets: Any = [],  # noqa: B006 - for a mapped task, Airflow adds this default to a list
        **kwargs: Any,
    ) -> None:
        require_asset(self, asset)
        super().__init__(inlets=declared(inlets, asset), **kwargs)
        self.asset = asset
        self.table = table
        self.delta_conn_id = delta_conn_id
        self.start: Any = start

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the new versions, and store that this run processes them.

        Raises:
            AirflowSkipException: There are no new versions, or they change no rows.
            InvalidStatementError: The operator is mapped, and its asset is not among the inlets.
        """
        state = task_state(context, self._hook, self._place)
        store = self._hook.log_store(self._place)
        own: Any = state.get(STATE_KEY)
        if own is None or not _is_of(own, store):
            own = self._due(store, context)
            state.set(STATE_KEY, own, retention=NEVER_EXPIRE)
        own = {name: value for name, value in own.items() if name != _TABLE_ID}
        self.log.info("Versions %s to %s of %s are new", own["from_version"], own["to_version"], own["table"])
        for key, value in own.items():
            push_xcom(context, key, value)
        push_xcom(context, "delta_version", own["to_version"])
        return own

    @property
    def _hook(self) -> DeltaHook:
        return DeltaHook(self.delta_conn_id)

    @property
    def _place(self) -> str:
        if self.table is not None:
            return self.table
        named = name_of_asset(self.asset.uri)
        return self.asset.uri if named is None else str(named[1])

    def _due(self, store: LogStore, context: Context) -> dict[str, Any]:
        from airflow_delta.watch.processed_versions import due_versions

        ti = context["ti"]
        key = f"airflow_delta.processed.{ti.dag_id}.{ti.task_id}"
        if ti.map_index is not None and ti.map_index >= 0:  # each index may have its own table, while all share the asset
            key += f".{hashlib.sha256(store.table_uri.encode()).hexdigest()[:16]}"
        if len(key) > _LONGEST_KEY:
            key = f"airflow_delta.processed.{hashlib.sha256(key.encode()).hexdigest()}"
        progress = self._progress(context, key)
        stored: Any = progress.get(key)
        due = due_versions(store, stored, self.start, partial(_has_succeeded, ti))
        if due.changes_data and due.to_version >= due.from_version:
            progress.set(key, due.processed.claimed_by(ti.run_id, due.to_version).to_json())
            return {
                "table": sanitize_uri(store.table_uri),
                _TABLE_ID: due.processed.table_id,
                "from_version": due.from_version,
                "to_version": due.to_version,
                "previous_version": due.from_version - 1,
                "gap": due.gap,
                "reset": due.reset,
            }
        progress.set(key, due.processed.moved_to(due.to_version).to_json())
        raise AirflowSkipException(f"{store.table_uri} has no new rows up to version {due.to_version}")

    def _progress(self, context: Context, key: str) -> Any:
        """The asset's state store. Airflow creates it only for inlets that a mapped task has before it is unmapped."""
        if not HAS_STATE_STORES and "asset_state_store" not in context:
            return state_file(self._hook, self._place, key)
        try:
            return context["asset_state_store"][self.asset]
        except KeyError:
            detail = f"a mapped operator needs the asset {self.asset.name!r} in partial(inlets=[...]) too"
            raise self.invalid(detail) from None


def _is_of(own: Mapping[str, Any], store: LogStore) -> bool:
    """Whether the stored versions of a run belong to this table, not to an earlier table at the same location."""
    from airflow_delta.watch.processed_versions import has_reached

    is_known = _TABLE_ID in own  # earlier releases did not store it
    is_of_place = own["table"] == sanitize_uri(store.table_uri)
    return is_of_place and (not is_known or has_reached(store, own[_TABLE_ID], own["to_version"]))


def _has_succeeded(ti: Any, run_id: str) -> bool:
    """Whether a run of this DAG has succeeded; a run that was deleted has not."""
    return bool(ti.get_dr_count(ti.dag_id, run_ids=[run_id], states=["success"]))
