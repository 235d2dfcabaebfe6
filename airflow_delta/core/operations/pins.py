"""Pins: versions that task runs still need, regardless of the retention.

A pin is a small JSON file in the folder of the table, ``_airflow_delta/pins/{id}-{alias}.json``. Until it is released or
expires, vacuum keeps the files of its version, and log cleanup keeps the part of the log needed to open it. Other engines do
not know of pins.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any

from airflow_delta.core.errors import DeltaError
from airflow_delta.core.storage.log_store import FileStatus, LogStore

_logger = logging.getLogger(__name__)

PINS_FOLDER = "_airflow_delta/pins"
"""Path below the table's root; starts with an underscore, so that no engine reads it as data and no vacuum deletes it."""

_THREADS = 8
_MOST_BYTES = 1 << 16
_MOST = (1 << 63) - 1  # versions and times of the protocol are signed 64-bit integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One version of one table that a task run needs.

    Attributes:
        id: Random id, the same for all pins of a task run, in each of its tries.
        alias: The table's name within the run.
        created: Milliseconds since the epoch.
        expires: Milliseconds since the epoch; from then on the pin has no effect.
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
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value).__name__ != field.type:
                raise TypeError(f"{field.name} is {value!r}")
        if not 0 <= self.version <= _MOST:
            raise ValueError(f"version is {self.version}")
        if not -1 <= self.map_index <= _MOST:
            raise ValueError(f"map_index is {self.map_index}")

    @property
    def path(self) -> str:
        """Path of the pin, below the table's root."""
        return f"{PINS_FOLDER}/{self.id}-{self.alias}.json"

    @property
    def holder(self) -> str:
        """The task run that needs the version, for people to read."""
        return f"{self.dag_id}.{self.task_id} {self.run_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedPin:
    """A file in the pins folder that ``register`` cannot have written. It is never deleted here.

    Attributes:
        path: Path of the file, below the table's root.
        detail: What is wrong with it.
        version: The version it pins; None if unreadable: then it protects nothing.
        expires: Milliseconds since the epoch; without a readable time it never expires.
    """

    path: str
    detail: str
    version: int | None = None
    expires: int = _MOST

    def __str__(self) -> str:
        kept = "protects nothing" if self.version is None else f"protects version {self.version} all the same"
        return f"{self.path!r} is not a pin and {kept}: {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinFolder:
    """All pins of a table, including expired ones, and damaged pin files."""

    pins: tuple[Pin, ...] = ()
    damaged: tuple[DamagedPin, ...] = ()

    def followed_by(self, later: PinFolder) -> PinFolder:
        """The union of two reads of the folder."""
        return PinFolder(
            pins=tuple(dict.fromkeys((*self.pins, *later.pins))),
            damaged=tuple(dict.fromkeys((*self.damaged, *later.damaged))),
        )

    def live(self, now: int) -> tuple[Pin, ...]:
        """The pins not yet expired at ``now`` (milliseconds since the epoch)."""
        return tuple(pin for pin in self.pins if pin.expires > now)

    def versions(self, now: int) -> set[int]:
        """The versions to keep at ``now``, including those that damaged pins still name."""
        found: list[Pin | DamagedPin] = [*self.pins, *self.damaged]
        return {pin.version for pin in found if pin.version is not None and pin.expires > now}


def read_pin_folder(store: LogStore) -> PinFolder:
    """All pins of a table; empty without the folder. Damaged files are part of the result, and raise no error."""
    files = [status for status in store.list_from(PINS_FOLDER) if status.path.endswith(".json")]
    with ThreadPoolExecutor(_THREADS) as pool:
        found = [pin for pin in pool.map(lambda status: _read(store, status), files) if pin is not None]
    folder = PinFolder(
        pins=tuple(pin for pin in found if isinstance(pin, Pin)),
        damaged=tuple(pin for pin in found if isinstance(pin, DamagedPin)),
    )
    for pin in folder.damaged:
        _logger.warning("%s: %s", store.table_uri, pin)
    return folder


def read_pins(store: LogStore) -> tuple[Pin, ...]:
    """All readable pins of a table, including expired ones."""
    return read_pin_folder(store).pins


def _read(store: LogStore, status: FileStatus) -> Pin | DamagedPin | None:
    if status.size > _MOST_BYTES:
        return DamagedPin(path=status.path, detail=f"it has {status.size} bytes")
    document: Any = None
    try:
        document = json.loads(store.read(status.path))
        pin = Pin(**document)
    except FileNotFoundError:  # released since the listing
        return None
    except (ValueError, TypeError, RecursionError) as error:
        return _damaged(status.path, document, f"{type(error).__name__}: {str(error)[:100]!r}")
    return pin if pin.path == status.path else _damaged(status.path, document, f"by its content it is {pin.path[:100]!r}")


def _damaged(path: str, document: object, detail: str) -> DamagedPin:
    """What can still be honored of a damaged pin: its version, until it expires."""
    members = document if isinstance(document, dict) else {}
    version, expires = (value if _is_count(value) else None for value in map(members.get, ("version", "expires")))
    return DamagedPin(path=path, detail=detail, version=version, expires=_MOST if expires is None else expires)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST


def register(store: LogStore, pin: Pin) -> None:
    """Write a pin atomically; replaces one with the same id and alias. The table must exist."""
    store.write(pin.path, json.dumps(asdict(pin), indent=1).encode())


def release(store: LogStore, pins: Iterable[Pin]) -> None:
    """Delete pins; the next vacuum may delete what they protected."""
    if paths := [pin.path for pin in pins]:
        store.delete(paths)


def release_expired(store: LogStore, now: int) -> None:
    """Delete pins that have expired at ``now``; storage failures are ignored, as expired pins have no effect."""
    with suppress(OSError, DeltaError):
        release(store, [pin for pin in read_pins(store) if pin.expires <= now])
