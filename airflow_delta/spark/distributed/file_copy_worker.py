"""The side of a shared copy that runs in Spark's Python workers.

Workers import this module: it knows no parser of predicates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from airflow_delta.core.operations.file_copier import FileCopies
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.table_filesystems import TableFilesystems

COPIED_DDL = "path string, name string, size bigint"

_THREADS = 4  # small files are mostly waited for


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyWorker:
    """Copies files of one table below the root of another.

    Attributes:
        source_uri: The table whose files they are, for errors.
        locate: Finds them.
        target_uri: The table that gets the copies, for errors.
        target: Its filesystems.
        folder: Where the copies go, below its root.
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
