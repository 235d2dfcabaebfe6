"""The URI of a table's asset: one for all spellings, without credentials. Pure."""

from __future__ import annotations

from airflow_delta.core.storage.object_location import ObjectLocation, ObjectService
from airflow_delta.core.storage.table_uri import local_path, scheme_of

_SCHEMES = {ObjectService.S3: "s3", ObjectService.GCS: "gs", ObjectService.AZURE: "abfss"}


def sanitize_uri(table: str) -> str:
    """The normalized URI of a table, so that all spellings of one table are one asset.

    ``s3a://`` and ``s3n://`` become ``s3://``, ``gcs://`` becomes ``gs://``, ``abfs://container@account...`` becomes ``abfss://``,
    and a local path ``file://`` with an absolute one. Query, fragment and slashes at the end are dropped.

    Raises:
        InvalidStatementError: The URI holds credentials, or names no bucket.
    """
    scheme = scheme_of(table)
    if scheme == "file":
        return f"file://{local_path(table)}"
    bare = table.partition("?")[0].partition("#")[0]
    location = ObjectLocation.from_uri(bare)
    if location is None:
        return f"{scheme}:{bare[len(scheme) + 1 :].rstrip('/')}"
    container = f"{location.container}@{location.host}" if location.host else location.container
    scheme = _SCHEMES[location.service] if location.service is not ObjectService.AZURE or location.host else scheme
    return f"{scheme}://{container}/{location.key}"
