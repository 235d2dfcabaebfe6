"""The pins that a task keeps in its state store, and the pins of runs that have ended."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_delta.core.statements import PinnedTable, Version
from airflow_delta.core.statements.json_form import to_json
from airflow_delta.hooks.airflow_features import NEVER_EXPIRE
from airflow_delta.hooks.task_token import StateStore

if TYPE_CHECKING:
    from airflow_delta.core.operations.pins import Pin
    from airflow_delta.core.storage.log_store import LogStore

STATE_KEY = "airflow_delta.pin"

PIN_ID = "delta_pin"
"""XCom of a task that pins: the id of its pins. By it this Airflow knows a pin for its own."""

_ENDED = ["success", "failed"]

_NAME = re.compile(r"(?!\.+$)[\w.-]{1,250}")
"""What Airflow takes for the id of a DAG or a task; it puts both, and that of a run, into the paths of requests as they are."""
_RUN = re.compile(r"(?!\.+$)[^/\\?#%\x00-\x1f\x7f]{1,250}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPin:
    """What a task has pinned, as its state store keeps it over retries and clears.

    Attributes:
        id: Of its pins.
        digest: Hash of what was requested.
        clear_count: ``ti.max_tries`` when it was resolved; it changes when the task is cleared, not when it is retried.
        versions: Alias to version and id of the table; empty before anything is resolved.
    """

    id: str
    digest: str = ""
    clear_count: int = -1
    versions: Mapping[str, Sequence[Any]]

    def statement_tables(self, requested: Sequence[PinnedTable], *, clear_count: int, refresh: bool) -> tuple[PinnedTable, ...]:
        """The tables at the versions that were pinned; as requested where the request has changed, or pins are refreshed.

        A refresh happens once for each clear: retries after it find what the first of them pinned.
        """
        if not self.versions or self.digest != digest_of(requested) or (refresh and self.clear_count != clear_count):
            return tuple(requested)
        return tuple(
            replace(table, as_of=Version(self.versions[table.alias][0]), table_id=self.versions[table.alias][1])
            for table in requested
        )


def digest_of(tables: Iterable[PinnedTable]) -> str:
    """A hash that is equal only for equal tables, aliases and requested versions."""
    return hashlib.sha256(json.dumps([to_json(table) for table in tables], sort_keys=True).encode()).hexdigest()


def kept_pin(store: StateStore) -> KeptPin:
    """The task's stored pins; a task without any gets a new id for its pins, which is stored."""
    stored = store.get(STATE_KEY)
    if stored:
        return KeptPin(**{"clear_count" if name == "generation" else name: value for name, value in stored.items()})
    pin = KeptPin(id=uuid.uuid4().hex, versions={})
    keep_pin(store, pin)
    return pin


def keep_pin(store: StateStore, pin: KeptPin) -> None:
    """Store it as long as the DAG run exists: a run that is cleared next year still reads what it read."""
    value = {"id": pin.id, "digest": pin.digest, "generation": pin.clear_count, "versions": dict(pin.versions)}
    store.set(STATE_KEY, value, retention=NEVER_EXPIRE)


class DagRunsAndXComs(Protocol):
    """The part of a running task instance that knows other runs."""

    @staticmethod
    def get_dr_count(
        dag_id: str, logical_dates: Any = None, run_ids: list[str] | None = None, states: list[str] | None = None
    ) -> int:
        """How many DAG runs there are of these ids and in these states."""
        ...

    def xcom_pull(self, task_ids: str, dag_id: str, key: str, *, map_indexes: int, run_id: str) -> Any:
        """The XCom of another run's task; None when there is none."""
        ...


def release_pins_of_ended_runs(store: LogStore, ti: DagRunsAndXComs) -> tuple[Pin, ...]:
    """Delete the pins of DAG runs that ended in this Airflow, and return them; call it before a vacuum.

    A pin stays whose run goes on, is not known here (it was deleted, or is another Airflow's), or did not make it: two Airflows
    may have runs of one name, but not one id of pins. What stays by that expires.

    Raises:
        OSError: The storage does not answer.
    """
    from airflow_delta.core.operations.pins import read_pins, release

    def run_of(pin: Pin) -> tuple[str, str]:
        return pin.dag_id, pin.run_id

    ended: list[Pin] = []
    for (dag_id, run_id), pins in groupby(sorted(read_pins(store), key=run_of), run_of):
        with suppress(AirflowRuntimeError):  # this task may lack the right to read other runs
            if _NAME.fullmatch(dag_id) and _RUN.fullmatch(run_id) and ti.get_dr_count(dag_id, run_ids=[run_id], states=_ENDED):
                ended += [pin for pin in pins if _is_ours(pin, ti)]
    release(store, ended)
    return tuple(ended)


def _is_ours(pin: Pin, ti: DagRunsAndXComs) -> bool:
    if not _NAME.fullmatch(pin.task_id):  # pins are files beside the table, which others may write
        return False
    found = ti.xcom_pull(pin.task_id, pin.dag_id, PIN_ID, map_indexes=pin.map_index, run_id=pin.run_id)
    return bool(found == pin.id)
