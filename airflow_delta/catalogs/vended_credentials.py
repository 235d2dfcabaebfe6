"""Keys of a table's storage that its catalog gives for a time: requested when they are needed, renewed before they end.

They are held in the memory of the process that requested them, and never written: the keys that a driver needs, it requests
itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_delta.catalogs.entry import plain_location
from airflow_delta.catalogs.errors import CatalogUnavailableError
from airflow_delta.core.clock import Clock, system_clock
from airflow_delta.core.foreign_values import natural_number
from airflow_delta.core.storage.object_filesystem import secrets_of

LEAST_PAUSE = 10_000
"""Milliseconds between two requests, however soon the credentials end."""

_NAMES = {
    "s3.access-key-id": "key",
    "s3.secret-access-key": "secret",
    "s3.session-token": "token",
    "azure.sas-token": "sas_token",
    "gcs.oauth-token": "token",
}
"""Unity's names of a credential's parts, and those of fsspec's storage options."""

_logger = logging.getLogger(__name__)
_vended: set[str] = set()


def vended_secrets() -> set[str]:
    """The secrets that this process was given, so that they can be taken out of texts."""
    return set(_vended)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageCredential:
    """A credential of one place.

    Attributes:
        prefix: URI below which it is valid.
        ends: When, in milliseconds since the epoch.
        options: What the storage takes, as fsspec names it. Secret.
    """

    prefix: str
    ends: int
    options: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_json(cls, document: object) -> StorageCredential:
        """A ``DeltaStorageCredential`` of Unity. Raises ``ValueError``, which shows no part of it."""
        found = document if isinstance(document, Mapping) else {}
        config, prefix, ends = found.get("config"), found.get("prefix"), natural_number(found.get("expiration-time-ms"))
        if not isinstance(config, Mapping) or not isinstance(prefix, str) or ends is None:
            raise ValueError("expected a credential with prefix, config and expiration-time-ms")
        options = {_NAMES[name]: value for name, value in config.items() if name in _NAMES and isinstance(value, str)}
        return cls(prefix=prefix, ends=ends, options=options)

    def covers(self, location: str) -> bool:
        """Whether it is of a place or one above it."""
        prefix = plain_location(self.prefix)
        return f"{plain_location(location)}/".startswith(f"{prefix}/")


def credential_for(location: str, documents: object) -> StorageCredential:
    """Of these credentials the one for a location: that with the longest prefix.

    Raises:
        ValueError: None covers it, or one is none.
    """
    found = [StorageCredential.from_json(document) for document in (documents if isinstance(documents, list) else [])]
    covering = [credential for credential in found if credential.covers(location)]
    if not covering:
        raise ValueError("expected a credential that covers the table's location")
    return max(covering, key=lambda credential: len(credential.prefix))


class VendedCredentials:
    """The storage options of one table; safe between threads.

    Args:
        request: The catalog's answer.
        hide: Is told of each secret, once.
        clock: The time by which they are renewed: when half of what was left of them is over.
    """

    def __init__(
        self,
        request: Callable[[], StorageCredential],
        *,
        hide: Callable[[str], Any] = lambda _secret: None,
        clock: Clock = system_clock,
    ) -> None:
        self._request, self._hide, self._clock = request, hide, clock
        self._lock = threading.Lock()
        self._held: StorageCredential | None = None
        self._renewal = 0

    def __call__(self) -> Mapping[str, str]:
        """The options that hold now. Raises as ``request``, unless those that are held have not ended."""
        with self._lock:
            now, held = self._clock(), self._held
            if held is not None and now < self._renewal:
                return held.options
            try:
                held = self._held = self._request()
            except CatalogUnavailableError as error:
                if held is None or now >= held.ends:
                    raise
                self._renewal = now + LEAST_PAUSE
                _logger.warning("the storage credentials are not renewed yet: %s", error)
                return held.options
            self._renewal = now + max(LEAST_PAUSE, (held.ends - now) // 2)
            for secret in secrets_of(held.options) - _vended:
                _vended.add(secret)
                self._hide(secret)
            return held.options
