"""Pinned versions: which ones runs still need, whatever the retention says.

A pin is a small JSON file beside the table, ``_airflow_delta/pins/{id}-{alias}.json``. Until it is released or expires, vacuums
keep the files of its version, and log cleanups the part of the log from which it is opened. Other engines know nothing of pins.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields

from airflow_delta.core.errors import CorruptPinError
from airflow_delta.core.storage.log_store import LogStore

PINS_FOLDER = "_airflow_delta/pins"
"""Below a table. The name starts with an underscore: no engine takes it for data, no vacuum touches it."""

_THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One version of one table that one task run needs.

    Attributes:
        id: Random, the same for all that one task run pins, and for each of its tries.
        alias: What the run calls the table.
        created: Milliseconds since the epoch.
        expires: Likewise; from then on the pin protects nothing.
    """

    id: str
    alias: str
    version: int
    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    created: int
    expires: int

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if type(value).__name__ != each.type:
                raise TypeError(f"{each.name} is {value!r}")

    @property
    def path(self) -> str:
        """Where the pin lies, below the table's root."""
        return f"{PINS_FOLDER}/{self.id}-{self.alias}.json"

    @property
    def holder(self) -> str:
        """The run that needs the version, for people."""
        return f"{self.dag_id}.{self.task_id} {self.run_id}"


def read_pins(store: LogStore) -> tuple[Pin, ...]:
    """All pins of a table, expired ones too; none where there is no such folder.

    Raises:
        CorruptPinError: One of the files is none.
    """
    paths = [each.path for each in store.list_from(PINS_FOLDER) if each.path.endswith(".json")]
    with ThreadPoolExecutor(_THREADS) as pool:
        return tuple(pin for pin in pool.map(lambda path: _read(store, path), paths) if pin is not None)


def _read(store: LogStore, path: str) -> Pin | None:
    try:
        pin = Pin(**json.loads(store.read(path)))
    except FileNotFoundError:  # released since it was listed
        return None
    except (ValueError, TypeError, RecursionError) as error:
        raise CorruptPinError(table=store.table_uri, file=path, detail=str(error)) from error
    if pin.path != path:
        raise CorruptPinError(table=store.table_uri, file=path, detail=f"by its content it is {pin.path}")
    return pin


def live_pins(store: LogStore, now: int) -> tuple[Pin, ...]:
    """The pins that have not expired at ``now`` (milliseconds since the epoch). Raises ``CorruptPinError``."""
    return tuple(pin for pin in read_pins(store) if pin.expires > now)


def pinned_versions(store: LogStore, now: int) -> set[int]:
    """The versions that unexpired pins name. Raises ``CorruptPinError``."""
    return {pin.version for pin in live_pins(store, now)}


def register(store: LogStore, pin: Pin) -> None:
    """Write a pin, in one step; it takes the place of the one with its id and alias. The table must be there."""
    store.write(pin.path, json.dumps(asdict(pin), indent=1).encode())


def release(store: LogStore, pins: Iterable[Pin]) -> None:
    """Delete pins; what they protected may go with the next vacuum."""
    if paths := [pin.path for pin in pins]:
        store.delete(paths)
