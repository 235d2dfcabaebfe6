"""The location of a directory, independent of how its URI is spelled."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePosixPath

from airflow_delta.core.storage.object_location import ObjectLocation
from airflow_delta.core.storage.table_uri import local_path, scheme_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A directory or file; all URIs of the same place give equal values.

    Local paths are absolute with links resolved, ``s3``, ``s3a`` and ``s3n`` are the same service, and trailing slashes are
    ignored. Nothing is percent-decoded: here, ``a%20b`` and ``a b`` are different names.

    Attributes:
        volume: What contains the path: a filesystem, a bucket, or a container of an account.
        path: Absolute path in the volume.
    """

    volume: str
    path: PurePosixPath

    @classmethod
    def from_uri(cls, uri: str) -> Place:
        """The place that the URI names; it need not exist. Errors: as ``ObjectLocation.from_uri``."""
        location = ObjectLocation.from_uri(uri)
        if location is not None:
            account = f"@{location.account.lower()}" if location.account else ""
            return cls(volume=f"{location.service}:{location.container}{account}", path=PurePosixPath("/", location.key))
        scheme = scheme_of(uri)
        if scheme == "file":
            return cls(volume="file:", path=PurePosixPath(os.path.realpath(local_path(uri))))
        authority, _, path = uri[len(scheme) + 1 :].removeprefix("//").partition("/")
        return cls(volume=f"{scheme}:{authority.lower()}", path=PurePosixPath("/", path))

    def holds(self, other: Place) -> bool:
        """Whether the other place is this one, or inside of it."""
        return self.volume == other.volume and other.path.is_relative_to(self.path)

    def overlaps(self, other: Place) -> bool:
        """Whether the two places are the same, or one is inside of the other."""
        is_below = self.path.is_relative_to(other.path) or other.path.is_relative_to(self.path)
        return self.volume == other.volume and is_below
