"""Vended credentials: temporary keys for a table's storage from its catalog, requested on demand and renewed in time.

They are kept in the memory of the process that requested them, and never written anywhere: a driver requests its own.
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
"""Least milliseconds between two requests, however soon the credentials expire."""

_NAMES = {
    "s3.access-key-id": "key",
    "s3.secret-access-key": "secret",
    "s3.session-token": "token",
    "azure.sas-token": "sas_token",
    "gcs.oauth-token": "token",
}
"""fsspec's names of storage options, by Unity's names of a credential's parts."""

VENDED_NAMES = frozenset(_NAMES.values())
"""The storage options that a credential may set."""

_logger = logging.getLogger(__name__)

_MOST_SECRETS = 10_000
_secrets: dict[str, None] = {}
_secrets_lock = threading.Lock()


def vended_secrets() -> set[str]:
    """The latest secrets that this process has received, for removing them from texts."""
    with _secrets_lock:
        return set(_secrets)


def _new_secrets(options: Mapping[str, str]) -> list[str]:
    """Remember the secrets of the options, and return the new ones. The oldest are forgotten, as they have long expired."""
    with _secrets_lock:
        found = [secret for secret in secrets_of(options) if secret not in _secrets]
        _secrets.update(dict.fromkeys(found))
        for secret in list(_secrets)[: max(0, len(_secrets) - _MOST_SECRETS)]:
            del _secrets[secret]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageCredential:
    """A credential for a location.

    Attributes:
        prefix: URI below which the credential is valid.
        ends: When the credential expires, in milliseconds since the epoch.
        options: Storage options for fsspec. Secret.
    """

    prefix: str
    ends: int
    options: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_json(cls, document: object) -> StorageCredential:
        """Parse Unity's ``DeltaStorageCredential``. Raises ``ValueError``, which shows no part of the document."""
        found = document if isinstance(document, Mapping) else {}
        config, prefix, ends = found.get("config"), found.get("prefix"), natural_number(found.get("expiration-time-ms"))
        if not isinstance(config, Mapping) or not isinstance(prefix, str) or ends is None:
            raise ValueError("expected a credential with prefix, config and expiration-time-ms")
        options = {_NAMES[name]: value for name, value in config.items() if name in _NAMES and isinstance(value, str)}
        return cls(prefix=prefix, ends=ends, options=options)

    def covers(self, location: str) -> bool:
        """Whether the location is the prefix, or below it."""
        prefix = plain_location(self.prefix)
        return f"{plain_location(location)}/".startswith(f"{prefix}/")


def credential_for(location: str, documents: object) -> StorageCredential:
    """The credential for a location: of those that cover it, the one with the longest prefix.

    Raises:
        ValueError: No credential covers the location, or a document is not a credential.
    """
    found = [StorageCredential.from_json(document) for document in (documents if isinstance(documents, list) else [])]
    covering = [credential for credential in found if credential.covers(location)]
    if not covering:
        raise ValueError("expected a credential that covers the table's location")
    return max(covering, key=lambda credential: len(credential.prefix))


class VendedCredentials:
    """The vended storage options of one table; thread-safe.

    Args:
        request: Requests a credential from the catalog.
        hide: Called once with each secret, to mask it in logs.
        clock: The time, in milliseconds since the epoch. Credentials are renewed after half of their lifetime.
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
        self._held: tuple[StorageCredential, int] | None = None  # with the time of its renewal

    def __call__(self) -> Mapping[str, str]:
        """The options that are valid now.

        As long as the old options are valid, they are used while the catalog is unavailable, or while another thread renews
        them; a refusal by the catalog is raised at once. Raises as ``request``.
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
        # A credential that seems expired on arrival, as if this clock is ahead, is not requested again at each use.
        return new, min(half, new.ends) if new.ends > now else half
