"""Pins: versions that runs still need, whatever the retention.

A pin is a small JSON file beside the table, ``_airflow_delta/pins/{id}-{alias}.json``. Until it is released or expires, vacuums
keep the files of its version, and log cleanups the part of the log from which it is opened. Other engines know nothing of pins.
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
"""Below a table. The name starts with an underscore: no engine takes it for data, no vacuum touches it."""

_THREADS = 8
_MOST_BYTES = 1 << 16
_MOST = (1 << 63) - 1  # the protocol's versions and times are signed 64-bit numbers


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
        """Where the pin lies, below the table's root."""
        return f"{PINS_FOLDER}/{self.id}-{self.alias}.json"

    @property
    def holder(self) -> str:
        """The run that needs the version, for people."""
        return f"{self.dag_id}.{self.task_id} {self.run_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedPin:
    """A file among the pins that is not what ``register`` writes. It is never deleted here.

    Attributes:
        path: Where it lies, below the table's root.
        detail: What is wrong with it.
        version: The version it pins; None where that cannot be read, so that it protects nothing.
        expires: Milliseconds since the epoch; without a readable time, never.
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
    """All pins of a table, expired ones too, and the files among them that are damaged."""

    pins: tuple[Pin, ...] = ()
    damaged: tuple[DamagedPin, ...] = ()

    def followed_by(self, later: PinFolder) -> PinFolder:
        """What was there at either of two looks."""
        return PinFolder(
            pins=tuple(dict.fromkeys((*self.pins, *later.pins))),
            damaged=tuple(dict.fromkeys((*self.damaged, *later.damaged))),
        )

    def live(self, now: int) -> tuple[Pin, ...]:
        """The pins that have not expired at ``now`` (milliseconds since the epoch)."""
        return tuple(pin for pin in self.pins if pin.expires > now)

    def versions(self, now: int) -> set[int]:
        """The versions to keep at ``now``: also those that a damaged pin still names."""
        found: list[Pin | DamagedPin] = [*self.pins, *self.damaged]
        return {pin.version for pin in found if pin.version is not None and pin.expires > now}


def read_pin_folder(store: LogStore) -> PinFolder:
    """All pins of a table; none where there is no such folder. Damaged files are reported, and not an error."""
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
    """All pins of a table that can be read, expired ones too."""
    return read_pin_folder(store).pins


def _read(store: LogStore, status: FileStatus) -> Pin | DamagedPin | None:
    if status.size > _MOST_BYTES:
        return DamagedPin(path=status.path, detail=f"it has {status.size} bytes")
    document: Any = None
    try:
        document = json.loads(store.read(status.path))
        pin = Pin(**document)
    except FileNotFoundError:  # released since it was listed
        return None
    except (ValueError, TypeError, RecursionError) as error:
        return _damaged(status.path, document, f"{type(error).__name__}: {str(error)[:100]!r}")
    return pin if pin.path == status.path else _damaged(status.path, document, f"by its content it is {pin.path[:100]!r}")


def _damaged(path: str, document: object, detail: str) -> DamagedPin:
    """What can be kept to of a damaged pin: its version, until it expires."""
    members = document if isinstance(document, dict) else {}
    version, expires = (value if _is_count(value) else None for value in map(members.get, ("version", "expires")))
    return DamagedPin(path=path, detail=detail, version=version, expires=_MOST if expires is None else expires)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST


def register(store: LogStore, pin: Pin) -> None:
    """Write a pin, in one step; it takes the place of the one with its id and alias. The table must be there."""
    store.write(pin.path, json.dumps(asdict(pin), indent=1).encode())


def release(store: LogStore, pins: Iterable[Pin]) -> None:
    """Delete pins; what they protected may go with the next vacuum."""
    if paths := [pin.path for pin in pins]:
        store.delete(paths)


def release_expired(store: LogStore, now: int) -> None:
    """Delete the pins that have expired at ``now``, as far as the storage lets us: they are only untidy."""
    with suppress(OSError, DeltaError):
        release(store, [pin for pin in read_pins(store) if pin.expires <= now])
