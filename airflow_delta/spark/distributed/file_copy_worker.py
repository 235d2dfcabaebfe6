"""The part of a distributed copy that runs in Spark's Python workers.

Workers import this module, so it does not import the predicate parser.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from airflow_delta.core.operations.file_copier import FileCopies
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.table_filesystems import TableFilesystems

COPIED_DDL = "path string, name string, size bigint"

_THREADS = 4  # small files mostly mean waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyWorker:
    """Copies files of one table below the root of another.

    Attributes:
        source_uri: URI of the source table, for errors.
        locate: Resolves paths of the source's log.
        target_uri: URI of the target table, for errors.
        target: The target's filesystems.
        folder: Folder of the copies, below the target's root.
    """

    source_uri: str
    locate: FileLocator
    target_uri: str
    target: TableFilesystems
    folder: str

    def __call__(self, files: pa.Table) -> Iterator[pa.RecordBatch]:
        """The copies of these files (``FILE_TO_COPY``), as ``COPIED_FILE``."""
        copies = FileCopies(
            locate=self.locate,
            source_uri=self.source_uri,
            target=self.target,
            folder=self.folder,
            target_uri=self.target_uri,
        )
        yield from copies.make(files, threads=_THREADS).to_batches()
