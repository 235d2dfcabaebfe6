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

VENDED_NAMES = frozenset(_NAMES.values())
"""The storage options that a credential may set."""

_logger = logging.getLogger(__name__)

_MOST_SECRETS = 10_000
_secrets: dict[str, None] = {}
_secrets_lock = threading.Lock()


def vended_secrets() -> set[str]:
    """The latest secrets that this process was given, so that they can be taken out of texts."""
    with _secrets_lock:
        return set(_secrets)


def _new_secrets(options: Mapping[str, str]) -> list[str]:
    """Those of the options that this process did not have; of all, the oldest are forgotten, which have ended long since."""
    with _secrets_lock:
        found = [secret for secret in secrets_of(options) if secret not in _secrets]
        _secrets.update(dict.fromkeys(found))
        for secret in list(_secrets)[: max(0, len(_secrets) - _MOST_SECRETS)]:
            del _secrets[secret]
    return found


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
        self._held: tuple[StorageCredential, int] | None = None  # and when it is to be renewed

    def __call__(self) -> Mapping[str, str]:
        """The options that hold now.

        While the old ones hold, a catalog that is unavailable is waited for, and a thread does not wait for another one that
        renews them; what the catalog refuses is an error at once. Raises as ``request``.
        """
        held, now = self._held, self._clock()
        if held is not None and now < held[1]:
            return held[0].options
        holds = held is not None and now < held[0].ends
        if not self._lock.acquire(blocking=not holds):
            assert held is not None  # noqa: S101 - or this would have waited
            return held[0].options
        try:
            credential, _ = self._held = self._renewed()
            return credential.options
        finally:
            self._lock.release()

    def _renewed(self) -> tuple[StorageCredential, int]:
        now, held = self._clock(), self._held
        if held is not None and now < held[1]:  # another thread was faster
            return held
        try:
            new = self._request()
        except CatalogUnavailableError as error:
            if held is None or now >= held[0].ends:
                raise
            _logger.warning("the storage credentials are not renewed yet: %s", error)
            return held[0], min(now + LEAST_PAUSE, held[0].ends)
        for secret in _new_secrets(new.options):
            self._hide(secret)
        half = now + max(LEAST_PAUSE, (new.ends - now) // 2)
        # What has ended when it comes, as by a clock that is ahead, is not requested anew at each use.
        return new, min(half, new.ends) if new.ends > now else half
