"""The files of a table that are copied for another table, and their names in that table's log.

Protocol: PROTOCOL.md, "Add File and Remove File", "Deletion Vectors" (storage type ``u``).
"""

from __future__ import annotations

import uuid

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.data_files.deletion_vector import FRAME_BYTES, deletion_vector_path
from airflow_delta.core.data_files.z85 import z85_encoded
from airflow_delta.core.errors import CorruptLogError, UnsupportedStorageError
from airflow_delta.core.log.file_names import LOG_DIRECTORY
from airflow_delta.core.operations.absolute_paths import renamed_deletion_vectors
from airflow_delta.core.operations.file_copier import FILE_TO_COPY
from airflow_delta.core.storage.log_store import LogStore


def files_to_copy(files: pa.Table, *, table: str) -> pa.Table:
    """What to copy (``FILE_TO_COPY``) for these files (``ADD_FILE``): the data files, and each deletion vector file once.

    Args:
        files: Files of a version.
        table: URI of their table, for the error.

    Raises:
        CorruptLogError: A deletion vector cannot be located.
    """
    data = pa.table([files["path"], files["size"], pa.repeat(pa.scalar(True), len(files))], schema=FILE_TO_COPY)
    ends = _ends(files["deletion_vector"], table)
    vectors = {"path": list(ends), "size": list(ends.values()), "is_data": [False] * len(ends)}
    return pa.concat_tables([data, pa.table(vectors, schema=FILE_TO_COPY)])


def check_copies(target: LogStore, folder: str, copied: pa.Table) -> None:
    """Return if this process sees the copies (``COPIED_FILE``) in their full size, wherever they were made.

    Raises:
        UnsupportedStorageError: It does not: they were written to another machine's disk, or the storage lost bytes.
    """
    listed = list(target.list_all(folder))
    names = pa.array([file.path.rpartition("/")[2] for file in listed], pa.string())
    sizes = pa.array([file.size for file in listed], pa.int64())
    found = sizes.take(pc.index_in(copied["name"].combine_chunks(), names))
    wrong = pc.index(pc.fill_null(pc.equal(found, copied["size"].combine_chunks()), False), False).as_py()
    if wrong >= 0:
        name, size, seen = copied["name"][wrong], copied["size"][wrong], found[wrong].as_py()
        found_there = "none" if seen is None else f"one of {seen}"
        detail = f"expected a copy of {size} bytes at {folder}/{name}, found {found_there}"
        cure = "give a path that is the same storage on every machine"
        raise UnsupportedStorageError(uri=target.table_uri, detail=detail, cure=cure)


def as_copied(files: pa.Table, copied: pa.Table, folder: str, *, table: str) -> pa.Table:
    """The files (``ADD_FILE``) with the names of their copies.

    Args:
        files: Files of a version.
        copied: Copies of the files and of their deletion vectors, ``COPIED_FILE``.
        folder: Folder of the copies below the table's root; a name that needs no percent-encoding.
        table: URI of the files' table, for the error.

    Raises:
        CorruptLogError: A deletion vector cannot be located.
    """
    names = copied["name"].combine_chunks()

    def copies(paths: pa.Array) -> pa.Array:
        return names.take(pc.index_in(paths, copied["path"].combine_chunks()))

    def vector_names(paths: pa.Array) -> pa.Array:
        return pa.array([name and folder + _encoded(name) for name in copies(paths).to_pylist()], pa.string())

    columns = {
        "path": pc.binary_join_element_wise(folder, copies(files["path"].combine_chunks()), "/"),
        "deletion_vector": renamed_deletion_vectors(files["deletion_vector"], vector_names, "u", table=table),
    }
    return pa.table([columns.get(field.name, files[field.name]) for field in files.schema], schema=files.schema)


def _encoded(name: str) -> str:
    """The random part of ``deletion_vector_{uuid}.bin``, encoded as in a descriptor of storage type ``u``."""
    return z85_encoded(uuid.UUID(name.removeprefix("deletion_vector_").removesuffix(".bin")).bytes)


def _ends(deletion_vectors: pa.ChunkedArray, table: str) -> dict[str, int]:
    """The least possible size in bytes of each deletion vector file; only one Python object is made for each file."""
    fields = ["storage_type", "path_or_inline_dv", "offset", "size_in_bytes"]
    stored = deletion_vectors.drop_null()
    if not len(stored):
        return {}
    described = pa.table([pc.struct_field(stored, name) for name in fields], names=fields)
    described = described.filter(pc.not_equal(described["storage_type"], "i"))
    offsets, sizes = (pc.fill_null(described[name].cast(pa.int64()), 0) for name in fields[2:])
    described = described.append_column("end", pc.add(pc.add(offsets, sizes), FRAME_BYTES))
    ends: dict[str, int] = {}
    try:
        for file in described.group_by(fields[:2]).aggregate([("end", "max")]).to_pylist():
            path = deletion_vector_path(file) or ""
            ends[path] = max(ends.get(path, 0), file["end_max"])
    except (ValueError, TypeError) as error:
        raise CorruptLogError(table=table, file=LOG_DIRECTORY, detail=f"a deletion vector: {error}") from error
    return ends
