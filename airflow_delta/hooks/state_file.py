"""State of tasks, consumers and watchers: in Airflow's state stores or, before Airflow 3.3, in small JSON files.

A file lies in ``_airflow_delta/state`` below the scratch location of the connection or of ``[delta]``, else below the table.
Two Airflows that run DAGs of the same names on one table need separate scratch locations. The folder of a file says how long
the file is kept after its last change, so that no file has to be read before it is deleted; each new file deletes some expired
ones.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import Context

from airflow_delta.core.errors import StorageAccessError
from airflow_delta.hooks.airflow_features import run_in_thread
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.errors import StateFileError
from airflow_delta.hooks.task_token import StateStore

if TYPE_CHECKING:
    from airflow_delta.core.storage.log_store import LogStore

STATE_FOLDER = "_airflow_delta/state"
"""Folder below a table or a scratch location. Its name begins with ``_``: no engine takes it for data, no vacuum touches it."""

Kept = Literal["month", "year", "always"]
"""State of one try of a task, state that a cleared run must find again, and state that belongs to no run."""

_DAYS = {"month": 30, "year": 365}
_MOST_BYTES = 1 << 20
_MOST_LOOKED_AT = 1_000
"""Files that are checked for expiry when a file is created, from a random name on: one page of a listing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFile:
    """A state store in one file; each change replaces the file atomically.

    Attributes:
        store: The files of the table or of the scratch location.
        owner: The names that identify the owner of the state: equal names share a file.
        is_in_table: Whether the file lies in the folder of a table, which must exist before anything is written.
        kept: How long the file is kept after its last change.
        run_began: When the DAG run began, if it was never cleared: state that a deleted run of the same name has left is
            ignored. None accepts the state of any run.
    """

    store: LogStore
    owner: tuple[str | int | None, ...]
    is_in_table: bool
    kept: Kept = "month"
    run_began: str | None = None

    @property
    def path(self) -> str:
        """Path of the file below the root of its store."""
        return f"{STATE_FOLDER}/{self.kept}/{hashlib.sha256(json.dumps(self.owner).encode()).hexdigest()[:32]}.json"

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default.

        Raises:
            StateFileError: The file cannot be read, or is damaged.
        """
        return self._values().get(key, default)

    def set(self, key: str, value: Any, *, retention: timedelta | None = None) -> None:  # noqa: ARG002 - its folder says it
        """Create or replace the value.

        Raises:
            StateFileError: The file cannot be written, or there is no table yet.
        """
        from airflow_delta.core.log.file_names import LOG_DIRECTORY

        values = self._values()
        if not values and self.is_in_table and next(self.store.list_from(LOG_DIRECTORY), None) is None:
            raise self._error("there is no table yet, and nothing is created before it is there")
        self._write({**values, key: value})
        if not values:
            delete_expired_states(self.store, start=secrets.token_hex(4), most=_MOST_LOOKED_AT)

    def delete(self, key: str) -> None:
        """Delete the value."""
        values = self._values()
        if values.pop(key, None) is not None:
            self._write(values)

    async def aget(self, key: str) -> Any:
        """As ``get``, for a triggerer."""
        return await run_in_thread(self.get, key)

    async def aset(self, key: str, value: Any) -> None:
        """As ``set``, for a triggerer."""
        await run_in_thread(self.set, key, value)

    def _values(self) -> dict[str, Any]:
        try:
            status = self.store.status(self.path)
            if status is None:
                return {}
            if status.size > _MOST_BYTES:
                raise self._error(f"{self.path} has {status.size} bytes")
            document = json.loads(self.store.read(self.path))
        except FileNotFoundError:  # deleted in between
            return {}
        except (OSError, StorageAccessError) as error:
            raise self._error(str(error)) from error
        except (ValueError, RecursionError) as error:
            raise self._error(f"{self.path} is damaged: {error}") from error
        if not isinstance(document, dict) or not isinstance(document.get("values"), dict):
            raise self._error(f"{self.path} is damaged: it holds no values")
        if self.run_began is not None and document.get("run_began") != self.run_began:
            return {}
        values: dict[str, Any] = document["values"]
        return values

    def _write(self, values: Mapping[str, Any]) -> None:
        try:
            document = {"owner": self.owner, "run_began": self.run_began, "values": values}
            self.store.write(self.path, json.dumps(document, indent=1).encode())
        except (OSError, StorageAccessError) as error:
            raise self._error(str(error)) from error

    def _error(self, detail: str) -> StateFileError:
        return StateFileError(place=f"{self.store.table_uri}/{STATE_FOLDER}", detail=detail)


def state_file(
    hook: DeltaHook,
    table: str,
    *owner: str | int | None,
    scratch_uri: str | None = None,
    kept: Kept = "always",
    by_name: bool = False,
) -> StateFile:
    """The state file of an owner for one table.

    Args:
        hook: The tables of the connection.
        table: URI of the table's root, its path below the table root, or its name in the catalog.
        owner: Names that identify this state among all others.
        scratch_uri: The operator's own scratch location.
        kept: How long the file is kept after its last change.
        by_name: Whether a table given by its name in the catalog is identified by that name in the scratch location, too, so
            that the table need not exist yet.

    Raises:
        DeltaError: Workers cannot read the table, and there is no scratch location.
    """
    from airflow_delta.core.storage.resolve import log_store_for

    place = scratch_uri or hook.scratch_uri or conf.get("delta", "scratch_uri", fallback=None)
    if place:
        store = log_store_for(place, hook.storage_options(place))
        is_name = hook.is_session_name(table) or (by_name and hook.table_name(table) is not None)
        table = table if is_name else hook.table_uri(table)
        return StateFile(store=store, owner=(table, *owner), is_in_table=False, kept=kept)
    return StateFile(store=hook.log_store(table), owner=owner, is_in_table=True, kept=kept)


def task_state(
    context: Context, hook: DeltaHook, table: str, *, scratch_uri: str | None = None, kept: Kept = "year"
) -> StateStore:
    """The store for what a task remembers over retries and clears: Airflow's own or, before Airflow 3.3, a file."""
    store: StateStore | None = context.get("task_state_store")
    if store is not None:
        return store
    ti = context["ti"]
    owner = (ti.dag_id, ti.run_id, ti.task_id, ti.map_index)
    file = state_file(hook, table, *owner, scratch_uri=scratch_uri, kept=kept, by_name=True)
    return replace(file, run_began=_run_began(context))


def _run_began(context: Context) -> str | None:
    """When the run began; None once it was cleared, because a clear changes the start date."""
    run = context.get("dag_run")
    if run is None or run.start_date is None or getattr(run, "clear_number", None) != 0:
        return None
    return run.start_date.isoformat()


def delete_expired_states(store: LogStore, *, start: str = "", most: int | None = None) -> None:
    """Delete expired state files; errors of the storage are ignored, as leftover files do no harm.

    Args:
        store: The files of a table or of a scratch location.
        start: The first name to look at.
        most: How many files to look at in each folder; None for all.
    """
    now = time.time_ns() // 1_000_000
    for kept, days in _DAYS.items():
        oldest = now - timedelta(days=days) // timedelta(milliseconds=1)
        with suppress(OSError, StorageAccessError):
            files = islice(store.list_from(f"{STATE_FOLDER}/{kept}", start), most)
            store.delete([file.path for file in files if file.modification_time < oldest])
