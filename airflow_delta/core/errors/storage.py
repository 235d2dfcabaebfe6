"""Errors of a storage that is there and says no."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors.base import DeltaError


@dataclass(kw_only=True, eq=False)
class StorageAccessError(DeltaError):
    """The storage answered, and refused: no such bucket, no permission, no or wrong credentials. Nothing was changed.

    Attributes:
        uri: The table.
        detail: What the service said, without anything that could be a secret.
    """

    code = "DELTA_STORAGE_ACCESS"
    message = "the storage of {uri} refused: {detail}"
    remedy = (
        "see that the bucket exists, and that the storage options or the ambient credentials are those of an identity that "
        "may list and read it, and for writing also create and delete objects in it"
    )
    uri: str
    detail: str
