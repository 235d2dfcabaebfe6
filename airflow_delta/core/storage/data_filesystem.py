"""From a table's URI to the filesystem of its data files: the one place that maps schemes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.fs

from airflow_delta.core.errors import UnsupportedStorageError
from airflow_delta.core.storage.table_uri import local_path, scheme_of

_ARROW_SCHEMES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("abfs", "abfss", "hdfs")),
}


def data_filesystem(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """The filesystem of the file or table at ``uri``, and the path there; made anew in each worker, with ambient credentials.

    Raises:
        UnsupportedStorageError: Arrow has no filesystem for the scheme, or it cannot be used here.
    """
    scheme = scheme_of(uri)
    if scheme == "file":
        return pyarrow.fs.LocalFileSystem(), str(local_path(uri))
    if scheme not in _ARROW_SCHEMES:
        raise UnsupportedStorageError(uri=uri, detail=f"data files cannot be read over {scheme}://")
    try:
        return pyarrow.fs.FileSystem.from_uri(f"{_ARROW_SCHEMES[scheme] or scheme}{uri[len(scheme) :]}")
    except (OSError, pa.ArrowException) as error:
        raise UnsupportedStorageError(uri=uri, detail=str(error)) from error
