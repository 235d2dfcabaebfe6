"""Where the rows of a statement come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.fields import Number, Time, convert_fields, exclude_each_other, is_template
from airflow_delta.core.statements.validation import require_text


@dataclass(frozen=True, slots=True)
class TableSource:
    """A Delta table, read at one version; without version and timestamp the latest when the job starts.

    Where that is the statement's own target, the rows are of the version that the commit is computed from: what was read counts
    as read by the transaction, and is read again when another writer has changed it meanwhile.

    Attributes:
        table: URI of the table's root.
        version: Version to read.
        timestamp: Read the version of this time: milliseconds since the epoch, or ISO 8601 text. Not with ``version``.
    """

    type_name: ClassVar[str] = "table"
    table: str
    _: KW_ONLY
    version: Number | None = None
    timestamp: Time | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("TableSource", "table", self.table)
        exclude_each_other(self, "version", "timestamp")

    @property
    def version_number(self) -> int | None:
        """The version as a number, or None for no pin. Raises ``InvalidStatementError`` for text that is not a number."""
        if isinstance(self.version, str):
            raise InvalidStatementError(
                statement="TableSource", detail=f"the version {self.version!r} of {self.table} is not a number"
            )
        return self.version


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files that Spark reads: CSV, JSON, Parquet and other formats installed on the cluster.

    Attributes:
        path: URI of a file, a folder or a glob.
        format: Spark's name of the format, such as ``csv``.
        options: The reader's options.
        schema: Columns as Spark DDL (``"a INT, b STRING"``); None lets Spark infer it from the files.
    """

    type_name: ClassVar[str] = "files"
    path: str
    _: KW_ONLY
    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("FileSource", "path", self.path)
        require_text("FileSource", "format", self.format)


@dataclass(frozen=True, slots=True)
class SqlSource:
    """The rows of a Spark SQL query over named views.

    Attributes:
        query: One SELECT.
        views: View name to its source.
    """

    type_name: ClassVar[str] = "sql"
    query: str
    _: KW_ONLY
    views: Mapping[str, TableSource | FileSource] = field(default_factory=dict)

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("SqlSource", "query", self.query)
        if is_template(self.views):
            return
        for name, view in self.views.items():
            if not isinstance(view, TableSource | FileSource):
                raise InvalidStatementError(
                    statement="SqlSource", detail=f"the view {name!r} must be a TableSource or a FileSource, found {view!r}"
                )


Source = TableSource | FileSource | SqlSource
