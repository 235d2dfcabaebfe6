"""The pins that a task keeps in its state store, and the release of pins of runs that have ended."""

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
"""Key of the XCom with the id of a task's pins, by which this Airflow recognizes its own pins."""

_ENDED = ["success", "failed"]

_NAME = re.compile(r"(?!\.+$)[\w.-]{1,250}")
"""Valid ids of DAGs and tasks; Airflow puts them, and run ids, unescaped into the paths of requests."""
_RUN = re.compile(r"(?!\.+$)[^/\\?#%\x00-\x1f\x7f]{1,250}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPin:
    """What a task has pinned, in the form in which its state store keeps it over retries and clears.

    Attributes:
        id: Id of the task's pins.
        digest: Hash of the requested tables, aliases and versions.
        clear_count: ``ti.max_tries`` when the versions were resolved; a clear changes it, a retry does not.
        versions: Version and table id by alias; empty before anything is resolved.
    """

    id: str
    digest: str = ""
    clear_count: int = -1
    versions: Mapping[str, Sequence[Any]]

    def statement_tables(self, requested: Sequence[PinnedTable], *, clear_count: int, refresh: bool) -> tuple[PinnedTable, ...]:
        """The tables at their pinned versions; as requested if the request has changed, or the pins are to be refreshed.

        Pins are refreshed once per clear: later retries find what the first try after the clear has pinned.
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
    """Store the pins as long as the DAG run exists: a run that is cleared a year later still reads the same versions."""
    value = {"id": pin.id, "digest": pin.digest, "generation": pin.clear_count, "versions": dict(pin.versions)}
    store.set(STATE_KEY, value, retention=NEVER_EXPIRE)


class DagRunsAndXComs(Protocol):
    """The methods of a running task instance that give access to other runs."""

    @staticmethod
    def get_dr_count(
        dag_id: str, logical_dates: Any = None, run_ids: list[str] | None = None, states: list[str] | None = None
    ) -> int:
        """The number of DAG runs with these ids and states."""
        ...

    def xcom_pull(self, task_ids: str, dag_id: str, key: str, *, map_indexes: int, run_id: str) -> Any:
        """The XCom of a task of another run; None if it does not exist."""
        ...


def release_pins_of_ended_runs(store: LogStore, ti: DagRunsAndXComs) -> tuple[Pin, ...]:
    """Delete the pins of DAG runs that ended in this Airflow, and return them; call it before a vacuum.

    A pin stays if its run is still going on, is unknown here (deleted, or of another Airflow), or did not make the pin: two
    Airflows may have runs of the same name, but not the same id of pins. Pins that stay expire later.

    Raises:
        OSError: The storage cannot be reached.
    """
    from airflow_delta.core.operations.pins import read_pins, release

    def run_of(pin: Pin) -> tuple[str, str]:
        return pin.dag_id, pin.run_id

    ended: list[Pin] = []
    for (dag_id, run_id), pins in groupby(sorted(read_pins(store), key=run_of), run_of):
        with suppress(AirflowRuntimeError):  # this task may not be allowed to read other runs
            if _NAME.fullmatch(dag_id) and _RUN.fullmatch(run_id) and ti.get_dr_count(dag_id, run_ids=[run_id], states=_ENDED):
                ended += [pin for pin in pins if _is_ours(pin, ti)]
    release(store, ended)
    return tuple(ended)


def _is_ours(pin: Pin, ti: DagRunsAndXComs) -> bool:
    if not _NAME.fullmatch(pin.task_id):  # pins are files below the table, which others may write
        return False
    found = ti.xcom_pull(pin.task_id, pin.dag_id, PIN_ID, map_indexes=pin.map_index, run_id=pin.run_id)
    return bool(found == pin.id)
