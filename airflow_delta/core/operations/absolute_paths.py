"""Names of a table's files for use in another table: absolute, percent-encoded URIs.

Protocol: PROTOCOL.md, "Add File and Remove File", "Deletion Vectors" (storage type ``p``).
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions.file_actions import DELETION_VECTOR
from airflow_delta.core.data_files.deletion_vector import deletion_vector_path
from airflow_delta.core.errors import CorruptLogError
from airflow_delta.core.log.file_names import LOG_DIRECTORY
from airflow_delta.core.storage.table_uri import ABSOLUTE, local_path, scheme_of

_WITH_SCHEME = "^[A-Za-z][A-Za-z0-9+.-]+:/"
_KEPT = "/:@!$&'()*+,;=~"  # characters that a path may hold unencoded, as in Java's URI


def encoded_root(table_uri: str) -> str:
    """The table's root as a percent-encoded URI in Hadoop's spelling: ``file:/x y`` becomes ``file:/x%20y``."""
    scheme = scheme_of(table_uri)
    if scheme == "file":
        return f"file:{quote(str(local_path(table_uri)), safe=_KEPT)}".rstrip("/")
    return scheme + quote(table_uri[len(scheme) :], safe=_KEPT).rstrip("/")


def are_absolute(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which paths of the log are not relative to the table's root (``storage.table_uri.is_relative``)."""
    return pc.match_substring_regex(paths, ABSOLUTE)


def absolute_paths(paths: pa.ChunkedArray, table_uri: str) -> pa.ChunkedArray:
    """Paths of the log as URIs; URIs stay unchanged, and ``/x`` is a local file if the table is local."""
    with_scheme = pc.match_substring_regex(paths, _WITH_SCHEME)
    with_slash = pc.starts_with(paths, "/")
    rooted = pc.binary_join_element_wise("file:", paths, "") if scheme_of(table_uri) == "file" else paths
    below = pc.binary_join_element_wise(f"{encoded_root(table_uri)}/", paths, "")
    return pc.if_else(with_scheme, paths, pc.if_else(with_slash, rooted, below))


def absolute_deletion_vectors(deletion_vectors: pa.ChunkedArray, table_uri: str) -> pa.ChunkedArray:
    """The deletion vectors (``DELETION_VECTOR``) with absolute URIs as paths.

    Raises:
        CorruptLogError: A deletion vector cannot be located.
    """

    def absolute(places: pa.Array) -> pa.Array:
        return absolute_paths(pa.chunked_array([places]), table_uri).combine_chunks()

    return renamed_deletion_vectors(deletion_vectors, absolute, "p", table=table_uri)


def renamed_deletion_vectors(
    deletion_vectors: pa.ChunkedArray, rename: Callable[[pa.Array], pa.Array], storage_type: str, *, table: str
) -> pa.ChunkedArray:
    """The deletion vectors (``DELETION_VECTOR``) with their files renamed; inline ones stay unchanged.

    Args:
        deletion_vectors: The deletion vectors; only one Python object is made for each of their files.
        rename: Gives the new ``path_or_inline_dv`` of files, from their paths as in the log.
        storage_type: Storage type of the new names.
        table: The table that the deletion vectors belong to, for the error.

    Raises:
        CorruptLogError: A deletion vector cannot be located.
    """
    if deletion_vectors.null_count == len(deletion_vectors):
        return deletion_vectors
    whole = deletion_vectors.combine_chunks()
    fields = dict(zip((field.name for field in DELETION_VECTOR), whole.flatten(), strict=True))
    kinds, texts = fields["storage_type"], fields["path_or_inline_dv"]
    keys = pc.binary_join_element_wise(kinds, texts, "\n").dictionary_encode()
    try:
        places = [_place(*key.split("\n", 1)) for key in keys.dictionary.to_pylist()]
    except ValueError as error:
        raise CorruptLogError(table=table, file=LOG_DIRECTORY, detail=f"a deletion vector: {error}") from error
    renamed = rename(pa.array(places, pa.string())).take(keys.indices)
    is_file = pc.not_equal(kinds, "i")
    fields["storage_type"] = pc.if_else(is_file, storage_type, kinds)
    fields["path_or_inline_dv"] = pc.if_else(is_file, renamed, texts)
    return pa.chunked_array(
        [pa.StructArray.from_arrays(list(fields.values()), fields=list(DELETION_VECTOR), mask=whole.is_null())]
    )


def _place(kind: str, text: str) -> str | None:
    return deletion_vector_path({"storage_type": kind, "path_or_inline_dv": text})
