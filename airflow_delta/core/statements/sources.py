"""Where the rows of a statement come from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.fields import Number, Time, convert_fields, exclude_each_other, is_template, shortened
from airflow_delta.core.statements.function_text import SESSION, FunctionText, check_call
from airflow_delta.core.statements.publish import StagedHandle, staged_handle
from airflow_delta.core.statements.validation import require_text, require_type

_MOST_LINES = 1_000_000
_IN_MODULE = re.compile(r"[\w.]+:[\w.]+")


@dataclass(frozen=True, slots=True)
class TableSource:
    """A Delta table, read at one version; without version and timestamp, the latest one when the job starts.

    If it is the statement's own target, the rows are those of the version that the commit is based on: the transaction records
    what was read, and reads it again if another writer has changed it meanwhile.

    Attributes:
        table: URI of the table's root.
        version: Version to read.
        timestamp: Read the version of this time: milliseconds since the epoch, or ISO 8601 text. Not with ``version``.
        staged: Read the table as it will be once a staged commit is published: the commit's handle, or its JSON text. Not with
            ``version`` or ``timestamp``.
    """

    type_name: ClassVar[str] = "table"
    table: str
    _: KW_ONLY
    version: Number | None = None
    timestamp: Time | None = None
    staged: StagedHandle | str | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("TableSource", "table", self.table)
        exclude_each_other(self, "version", "timestamp")
        exclude_each_other(self, "version", "staged")
        exclude_each_other(self, "timestamp", "staged")
        object.__setattr__(self, "staged", staged_handle(self.staged))

    @property
    def version_number(self) -> int | None:
        """The version as an int; None if none is set. Raises ``InvalidStatementError`` for text that is not a number."""
        if isinstance(self.version, str):
            raise InvalidStatementError(
                statement="TableSource", detail=f"the version {self.version!r} of {self.table} is not a number"
            )
        return self.version


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files that Spark reads: CSV, JSON, Parquet and other formats that the cluster supports.

    Attributes:
        path: URI of a file, a folder or a glob.
        format: Spark's name of the format, such as ``csv``.
        options: Options of Spark's reader.
        schema: Columns as Spark DDL (``"a INT, b STRING"``); None lets Spark infer them from the files. For CSV all are strings
            then, unless the option ``inferSchema`` is set.
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
        if not is_template(self.options):
            require_type("FileSource", "options", self.options, Mapping)


@dataclass(frozen=True, slots=True)
class SqlSource:
    """The rows of a Spark SQL query over named views.

    Attributes:
        query: A single SELECT.
        views: The source of each view, by view name.
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
        require_type("SqlSource", "views", self.views, Mapping)
        for name, view in self.views.items():
            if not isinstance(view, TableSource | FileSource):
                raise InvalidStatementError(
                    statement="SqlSource", detail=f"the view {name!r} must be a TableSource or a FileSource, found {view!r}"
                )


@dataclass(frozen=True, slots=True)
class PythonSource:
    """The rows of the DataFrame that a Python function returns, which the job calls as ``function(spark, **arguments)``.

    ``PythonSource.of`` makes one from a function. The function may be called again after a conflict and in each retry, so it
    should do nothing but build the DataFrame.

    Attributes:
        function: Name of the function in ``code``; without code ``module:function``, which the driver imports.
        arguments: By parameter name a table or files, which the function gets as DataFrames, or a JSON value.
        code: The source of the function, from ``def`` on.
        file: The file that contains the source, for tracebacks; not compared between sources, as a file may move.
        line: Line number of ``def`` in that file.
    """

    type_name: ClassVar[str] = "python"
    function: str
    _: KW_ONLY
    arguments: Mapping[str, Any] = field(default_factory=dict)
    code: str | None = None
    file: str = field(default="", compare=False)
    line: int = field(default=1, compare=False)

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("PythonSource", "function", self.function)
        if self.code is None and not is_template(self.function) and not _IN_MODULE.fullmatch(self.function):
            detail = f"expected a function with its code, or the name of one as 'module:function', found {self.function!r}"
            raise InvalidStatementError(statement="PythonSource", detail=detail)
        if not is_template(self.line) and not 1 <= self.line <= _MOST_LINES:
            detail = f"line must be that of a file, from 1 to {_MOST_LINES:,}, found {self.line}"
            raise InvalidStatementError(statement="PythonSource", detail=detail)
        if not is_template(self.arguments):
            require_type("PythonSource", "arguments", self.arguments, Mapping)
            members = {name: _argument(f"the argument {name}", value) for name, value in self.arguments.items()}
            object.__setattr__(self, "arguments", members)
            if SESSION in members:
                raise InvalidStatementError(statement="PythonSource", detail=f"{SESSION} is the session, not an argument")

    @classmethod
    def of(cls, function: Callable[..., Any] | str, /, **arguments: Any) -> Self:
        """The source made of a function and its arguments.

        Args:
            function: A function, which is sent as source text; or ``module:function``, which the driver must be able to import.
            **arguments: Tables, files and values.

        Raises:
            InvalidStatementError: The function cannot be sent as source text, or does not take these arguments.
        """
        if not isinstance(function, str):
            check_call(function, arguments)
        return replace(cls.without_arguments(function), arguments=arguments)

    @classmethod
    def without_arguments(cls, function: Callable[..., Any] | str) -> Self:
        """As ``of``, for a function whose arguments are not known yet."""
        if isinstance(function, str):
            return cls(function)
        text = FunctionText.of(function)
        return cls(text.name, code=text.text, file=text.file, line=text.line)


def _argument(name: str, value: Any) -> Any:
    """The argument, with lists as tuples; raises ``InvalidStatementError`` if it is neither a source nor a JSON value."""
    if value is None or isinstance(value, bool | int | float | str | TableSource | FileSource):
        return value
    if isinstance(value, list | tuple):
        return tuple(_member(name, member) for member in value)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _member(name, member) for key, member in value.items()}
    detail = (
        f"{name} must be a TableSource, a FileSource or a value that JSON has, found {type(value).__name__} {shortened(value)}"
    )
    raise InvalidStatementError(statement="PythonSource", detail=detail)


def _member(name: str, value: Any) -> Any:
    if isinstance(value, TableSource | FileSource):
        detail = f"{name} holds {shortened(value)}; a table is an argument of its own"
        raise InvalidStatementError(statement="PythonSource", detail=detail)
    return _argument(name, value)


Source = TableSource | FileSource | SqlSource | PythonSource
