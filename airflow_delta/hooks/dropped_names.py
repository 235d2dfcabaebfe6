"""What a task remembers about a name that it drops: after the drop, the catalog no longer has the table's location."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import Context

from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.state_file import StateFile
from airflow_delta.hooks.task_token import OnClear, StateStore

if TYPE_CHECKING:
    from airflow_delta.catalogs.table_name import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedName:
    """The table behind a name.

    Attributes:
        location: URI of its root.
        table_id: The table's id in its Delta metadata, as the catalog had it; None if it had no id.
        version: The table's version, as the catalog had it; None if it had no version.
    """

    location: str
    table_id: str | None
    version: int | None

    def is_same_table(self, other: DroppedName) -> bool:
        """Whether both are the same table; the name may have gone to another table since an earlier try."""
        return (self.location, self.table_id) == (other.location, other.table_id)

    @classmethod
    def from_json(cls, document: Any) -> Self | None:
        """The remembered table; None if the document is something else."""
        known = {member.name for member in fields(cls)}
        return cls(**document) if isinstance(document, Mapping) and document.keys() == known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedNames:
    """What one task remembers about one name over its tries.

    Attributes:
        store: Where it is stored; None if nothing can be stored: before Airflow 3.3, without a scratch location and a table
            root.
        key: Key in the store: made of the name and, if a cleared task drops again, of ``ti.max_tries``, which each clear
            changes.
        is_retry: Whether this is not the first try.
    """

    store: StateStore | None
    key: str
    is_retry: bool

    @classmethod
    def of_task(cls, context: Context, hook: DeltaHook, name: TableName, *, scratch_uri: str | None, on_clear: OnClear) -> Self:
        """The memory of this task: in Airflow's own store, or in a file below the scratch location or the table root."""
        ti, store = context["ti"], context.get("task_state_store")
        key = f"airflow_delta.drop.{name}" if on_clear == "reuse" else f"airflow_delta.drop.{name}.{ti.max_tries}"
        file = None if store else _file(context, hook, scratch_uri, is_kept=on_clear == "reuse")
        return cls(store=store or file, key=key, is_retry=ti.try_number > 1)

    @property
    def may_be_forgotten(self) -> bool:
        """Whether an earlier try may have dropped the name without a record of it: in a retry without a store."""
        return self.store is None and self.is_retry

    def remember(self, dropped: DroppedName) -> None:
        """Store which table the name stands for, before the name is dropped."""
        if self.store is not None:
            self.store.set(self.key, asdict(dropped))

    @contextmanager
    def forgotten_if_refused(self, *, had_name: bool) -> Iterator[None]:
        """Delete the record if the catalog refuses to drop the name, so that a later try does not take it for dropped.

        Args:
            had_name: Whether this try found the name in the catalog; if not, an earlier try may have dropped it.
        """
        from airflow_delta.catalogs.errors import CatalogAccessDeniedError, CatalogRequestError

        try:
            yield
        except (CatalogAccessDeniedError, CatalogRequestError):
            if had_name and self.store is not None:
                self.store.delete(self.key)
            raise

    def earlier(self) -> DroppedName | None:
        """The table whose name an earlier try was about to drop; None without a record."""
        return None if self.store is None else DroppedName.from_json(self.store.get(self.key))


def _file(context: Context, hook: DeltaHook, scratch_uri: str | None, *, is_kept: bool) -> StateFile | None:
    """The state file of this task.

    Unless it is kept over clears, a DAG run that was deleted and created again gets a new file.
    """
    from airflow_delta.core.storage.resolve import log_store_for

    root = hook.table_root if hook.workers_see_tables else None
    place = scratch_uri or hook.scratch_uri or conf.get("delta", "scratch_uri", fallback=None) or root
    if not place:
        return None
    ti, store = context["ti"], log_store_for(place, hook.storage_options(place))
    owner: tuple[str | int | None, ...] = (ti.dag_id, ti.run_id, ti.task_id, ti.map_index)
    if not is_kept:
        began = context["dag_run"].start_date
        owner = (*owner, None if began is None else began.isoformat())
    return StateFile(store=store, owner=owner, is_in_table=False, kept="year")
