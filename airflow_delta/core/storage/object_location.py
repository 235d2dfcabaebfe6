"""Where an object is: the service, the bucket or container, and the key, parsed from all spellings of URIs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.storage.table_uri import scheme_of


class ObjectService(StrEnum):
    """An object store that supports conditional create; the value is the name of the package's extra."""

    S3 = "s3"
    GCS = "gcs"
    AZURE = "azure"


_SERVICES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), ObjectService.S3),
    **dict.fromkeys(("gs", "gcs"), ObjectService.GCS),
    **dict.fromkeys(("abfs", "abfss", "az"), ObjectService.AZURE),
}

# Microsoft's hosts: a log can contain any URI, and no token may be sent to other hosts.
_AZURE_HOST = re.compile(
    r"[a-z0-9-]+\.(dfs|blob)\.(core\.(windows\.net|chinacloudapi\.cn|usgovcloudapi\.net|cloudapi\.de)|fabric\.microsoft\.com)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectLocation:
    """A place in an object store.

    Attributes:
        container: Name of the bucket (S3, GCS) or container (Azure).
        key: Path in it, without a leading or trailing slash; nothing is percent-decoded.
        host: The part after ``@`` in Azure's URIs, ``account.dfs.core.windows.net``; None if the URI lacks it.
    """

    service: ObjectService
    container: str
    key: str
    host: str | None = None

    @classmethod
    def from_uri(cls, uri: str) -> ObjectLocation | None:
        """The place that the URI names; None if its scheme is not an object store's.

        Raises:
            InvalidStatementError: It names no bucket, contains credentials, or names an Azure account on a host that is not
                Microsoft's.
        """
        scheme = scheme_of(uri)
        if scheme not in _SERVICES:
            return None
        service = _SERVICES[scheme]
        authority, _, key = uri[len(scheme) + 1 :].removeprefix("//").partition("/")
        container, _, host = authority.partition("@")
        if host and service is not ObjectService.AZURE:  # not shown, as it may be a secret
            raise InvalidStatementError(
                statement=f"a {scheme}:// URI", detail="it must not contain credentials; pass them as storage options"
            )
        if host and not _AZURE_HOST.fullmatch(host.lower()):
            raise InvalidStatementError(statement=f"the URI {uri!r}", detail=f"{host} is not an Azure host")
        if not container:
            raise InvalidStatementError(statement=f"the URI {uri!r}", detail="it does not name a bucket or container")
        return cls(service=service, container=container, key=key.strip("/"), host=host or None)

    @property
    def account(self) -> str | None:
        """Name of the Azure storage account; None if the URI lacks it."""
        return self.host.partition(".")[0] if self.host else None

    @property
    def path(self) -> str:
        """Container and key, as the filesystems of Arrow and fsspec write paths."""
        return f"{self.container}/{self.key}" if self.key else self.container
