"""A store in memory that has object versions, as object stores do, and counts its requests."""

import hashlib
from collections import Counter
from dataclasses import replace

from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.storage.object_answers import ObjectContent

END_BYTES = 1 << 20


def version_of(content):
    """A hash of the content alone, like S3's ETag: equal content has an equal version, as times may be equal, too."""
    return hashlib.md5(content).hexdigest() if content else ""


class VersionedMemoryStore(InMemoryLogStore):
    """``requests`` counts requests by kind."""

    def __init__(self, table_uri="memory://versioned", **arguments):
        super().__init__(table_uri, **arguments)
        self.requests = Counter()

    @property
    def scope(self):
        return ("memory", self.table_uri)

    def read(self, path):
        self.requests["read"] += 1
        return super().read(path)

    def exists(self, path):
        self.requests["exists"] += 1
        return super().exists(path)

    def fetch(self, path):
        self.requests["fetch"] += 1
        content = super().read(path)
        return ObjectContent(content=content, size=len(content), version=version_of(content))

    def fetch_end(self, path):
        self.requests["fetch_end"] += 1
        content = super().read(path)
        return ObjectContent(content=content[-END_BYTES:], size=len(content), version=version_of(content))

    def fetch_range(self, path, start, length, version):
        self.requests["fetch_range"] += 1
        content = super().read(path)
        if version_of(content) != version:
            raise OSError(f"{path} was replaced while it was read")
        return content[start : start + length]

    def list_from(self, directory, start=""):
        self.requests["list"] += 1
        return super().list_from(directory, start)

    def list_all(self, directory="", start=""):
        for status in super().list_all(directory, start):
            yield replace(status, version=version_of(self._files.get(status.path, (b"",))[0]))

    def status(self, path):
        found = super().status(path)
        return found and replace(found, version=version_of(self._files.get(path, (b"",))[0]))
