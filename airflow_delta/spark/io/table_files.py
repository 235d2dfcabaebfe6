"""What is needed to read data files besides their paths: the same for every file of a table's version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from airflow_delta.core.actions import Metadata
from airflow_delta.core.data_files.file_rows import FileRows
from airflow_delta.core.data_files.row_bitmap import RowBitmap
from airflow_delta.core.schema import StructType
from airflow_delta.core.schema.char_columns import has_char, without_char
from airflow_delta.core.schema.column_mapping import MappingMode, mapping_mode
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.table_filesystems import TableFilesystems
from airflow_delta.core.table_features.feature import columns_of
from airflow_delta.spark.io.data_paths import hadoop_uri
from airflow_delta.spark.session import pads_char

if TYPE_CHECKING:  # workers import this module without the predicate parser
    from airflow_delta.core.snapshot.snapshot import Snapshot


READ_MARK = "airflow_delta.read"
"""Name of the reader option, or column metadata key, by which a scan in Spark's plan shows what it reads."""


def schema_of(metadata: Metadata) -> StructType:
    """The columns of an existing or future table; ids and physical names only if column mapping is on."""
    return columns_of(metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """How a table's files are accessed and their columns are matched; can be sent to Spark's workers.

    Attributes:
        table_uri: The root, as the user wrote it.
        schema: The table's columns, with their ids and physical names.
        partition_columns: Names of the partition columns.
        mapping: How columns are matched in files.
        storage_options: The options that Arrow needs to access the files, in fsspec's names.
        newest: The version, if it was read because it is the newest; None if it was requested by number or time, and for files
            that belong to no version.
        pads_char: Whether CHAR columns are padded, as Spark does by default.
        allowed_prefixes: URIs outside of the root where files may be.
    """

    table_uri: str
    schema: StructType
    partition_columns: tuple[str, ...]
    mapping: MappingMode
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    newest: int | None = None
    pads_char: bool = True
    allowed_prefixes: tuple[str, ...] = ()

    @classmethod
    def of(cls, snapshot: Snapshot, *, is_newest: bool = False) -> TableFiles:
        """For a version of a table."""
        return cls(
            table_uri=snapshot.table_uri,
            schema=snapshot.schema,
            partition_columns=snapshot.partition_columns,
            mapping=snapshot.column_mapping,
            storage_options=snapshot.store.storage_options,
            newest=snapshot.version if is_newest else None,
            allowed_prefixes=snapshot.store.allowed_prefixes,
        )

    @classmethod
    def to_be(cls, store: LogStore, metadata: Metadata) -> TableFiles:
        """For a version that is about to be committed."""
        return cls(
            table_uri=store.table_uri,
            schema=schema_of(metadata),
            partition_columns=metadata.partition_columns,
            mapping=mapping_mode(metadata.configuration),
            storage_options=store.storage_options,
            allowed_prefixes=store.allowed_prefixes,
        )

    def in_session(self, spark: SparkSession) -> TableFiles:
        """The same, with this session's setting for padding CHAR."""
        return replace(self, pads_char=pads_char(spark)) if any(map(has_char, self.schema.fields)) else self

    @property
    def mark(self) -> str:
        """The value that a scan has under ``READ_MARK``: table and ``newest``, as JSON."""
        return json.dumps({"table": hadoop_uri(self.table_uri), "newest": self.newest})

    @property
    def locate(self) -> FileLocator:
        """Resolves paths of the log, independent of the working directory."""
        uri = hadoop_uri(self.table_uri)
        return FileLocator(TableFilesystems(uri, self.storage_options), uri, self.allowed_prefixes)

    def hidden_rows(self, path: str, descriptor: Mapping[str, Any]) -> RowBitmap:
        """The rows of a file that its deletion vector marks as deleted. Raises ``CorruptDataFileError``."""
        return self.rows(StructType(())).hidden(path, descriptor)

    def rows(self, columns: StructType, **options: Any) -> FileRows:
        """A reader of these columns, which may include partition columns; ``options`` as of ``FileRows``."""
        by_id = self.mapping is MappingMode.ID
        columns = columns if self.pads_char else without_char(columns)
        return FileRows(self.locate, columns, self.partition_columns, table=self.table_uri, by_id=by_id, **options)
