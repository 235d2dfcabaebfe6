"""The part of a distributed vacuum that runs in Spark's Python workers.

Workers import this module, so it does not import the predicate parser.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from airflow_delta.core.operations.bulk_delete import delete_in_bulk
from airflow_delta.core.operations.unneeded_files import LISTED_FILE
from airflow_delta.core.storage.resolve import log_store_for
from airflow_delta.core.storage.table_filesystems import TableFilesystems

LISTED_DDL = "path string, size bigint, modification_time bigint"
FAILED = pa.schema([("example", pa.string()), ("number", pa.int64()), ("detail", pa.string()), ("is_refused", pa.bool_())])
"""One row for each failed request: ``FailedDelete``."""
FAILED_DDL = "example string, number bigint, detail string, is_refused boolean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lister:
    """Lists directories of a table recursively, given relative to its root."""

    filesystems: TableFilesystems

    def __call__(self, directories: pa.Table) -> Iterator[pa.RecordBatch]:
        """The files in them, as ``LISTED_FILE``."""
        filesystem, root = self.filesystems()
        for directory in directories["directory"].to_pylist():
            selector = pafs.FileSelector(f"{root}/{directory}", recursive=True, allow_not_found=True)
            yield listed(filesystem.get_file_info(selector), root)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleter:
    """Deletes files of a table, given relative to its root; raises ``UnsupportedStorageError`` if a package is missing."""

    table_uri: str
    storage_options: Mapping[str, Any] = field(repr=False)

    def __call__(self, files: pa.Table) -> Iterator[pa.RecordBatch]:
        """The requests that failed, as ``FAILED``."""
        failed = delete_in_bulk(log_store_for(self.table_uri, self.storage_options), files["path"].combine_chunks())
        yield pa.RecordBatch.from_pylist([asdict(failure) for failure in failed], schema=FAILED)


def listed(found: Iterable[pafs.FileInfo], root: str) -> pa.RecordBatch:
    """The files (not directories) among these as ``LISTED_FILE``, relative to the root."""
    files = [entry for entry in found if entry.type == pafs.FileType.File]
    columns = [
        [file.path.removeprefix(f"{root}/") for file in files],
        [file.size for file in files],
        [file.mtime_ns // 1_000_000 for file in files],
    ]
    return pa.record_batch(
        [pa.array(values, kind.type) for values, kind in zip(columns, LISTED_FILE, strict=True)], schema=LISTED_FILE
    )
