"""The rows that a user's Python function returns, and its errors with file and line."""

from __future__ import annotations

import builtins
import linecache
import re
import traceback
from collections.abc import Mapping
from importlib import import_module
from io import StringIO
from operator import attrgetter
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException, QueryContextType
from pyspark.sql import DataFrame

from airflow_delta.core.errors import DeltaError
from airflow_delta.core.statements import PythonSource
from airflow_delta.core.statements.function_text import FunctionText
from airflow_delta.core.storage.storage_failures import storage_failure
from airflow_delta.spark.errors import FunctionFailedError, FunctionResultError, first_line
from airflow_delta.spark.jvm import Py4JError, analyzed, is_stopped
from airflow_delta.spark.statement.query import QueryViews
from airflow_delta.spark.statement.steps import log_step
from airflow_delta.spark.worker_code import send_code

_OF_MACHINES = (PySparkException, Py4JError, OSError, MemoryError)
"""Errors that a retry may not meet: of the cluster, of files, of the network."""

_OF_CALLERS = (
    *(AnalysisException, ParseException, TypeError, ValueError, LookupError, AttributeError, AssertionError, ImportError),
    *(FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError),
)
"""Errors, including some of those, that every retry would meet."""

_STOPPED = "a session that the function has stopped"
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'File "(?P<file>[^"\n]{1,4096})", line (?P<line>\d{1,9}), in ')
_RAISED = re.compile(r"^(?:[\w.]{1,500}\.)?(?P<error>[A-Za-z_]\w{0,200})(?:: (?P<detail>.{0,2000}))?$", re.MULTILINE)
_LONGEST = 2_000
_LONGEST_TRACEBACK = 200_000


def call_function(source: PythonSource, views: QueryViews) -> DataFrame:
    """The rows that the source's function returns; nothing is computed yet, unless the function does so.

    Args:
        source: The function and its arguments.
        views: Its arguments that are tables or files.

    Raises:
        FunctionFailedError: The function cannot be loaded here, or raised an error that a retry would meet again.
        FunctionResultError: It did not return a DataFrame.
        DeltaError: As the function raised it, or because its storage failed. Errors of the cluster are raised unchanged.
    """
    file, line = source.file or "its module", source.line
    try:
        function = _load(source)
        file, line = _place(function, source)
        log_step("Calling %s (%s:%s)", source.function, file, str(line))
        arguments = {name: views[name] if name in views else _plain(value) for name, value in source.arguments.items()}
        send_code(views.spark)  # functions that it runs in workers may need the code
        rows: Any = function(views.spark, **arguments)
        if isinstance(rows, DataFrame) and not is_stopped(views.spark) and not rows.isStreaming:
            return analyzed(rows)
    except DeltaError:
        raise
    except (Exception, SystemExit) as error:
        if is_stopped(views.spark):
            raise FunctionResultError(function=source.function, file=file, line=line, found=_STOPPED) from error
        if isinstance(error, _OF_MACHINES) and not isinstance(error, _OF_CALLERS):
            failure = storage_failure(error, f"{source.function} ({file}:{_line_of(error, file) or line})")
            if failure is None:
                raise
            raise failure from error
        detail = first_line(error) if isinstance(error, PySparkException) else str(error)
        raise FunctionFailedError(
            function=source.function,
            file=file,
            line=_line_of(error, file) or line,
            error=type(error).__name__,
            detail=detail[:_LONGEST],
        ) from error
    found = _STOPPED if is_stopped(views.spark) else _kind_of(rows)
    raise FunctionResultError(function=source.function, file=file, line=line, found=found)


def worker_failure(error: Exception, source: PythonSource) -> FunctionFailedError | None:
    """The error that user code inside the function raised in a Python worker, taken from the text that Spark passes on.

    None for other errors, and for those that a retry may not meet: of files, of the network.
    """
    text = str(error)[:_LONGEST_TRACEBACK]
    _, begin, trace = text.partition(_TRACEBACK)
    own = [frame for frame in _FRAME.finditer(trace) if _is_of(source, frame["file"])]
    raised = _RAISED.search(trace)
    if not begin or not own or raised is None:
        return None
    kind = getattr(builtins, raised["error"], None)
    if isinstance(kind, type) and issubclass(kind, OSError | MemoryError):
        return None
    return FunctionFailedError(
        function=source.function,
        file=own[-1]["file"],
        line=int(own[-1]["line"]),
        error=raised["error"],
        detail=raised["detail"] or "",
    )


def value_place(error: PySparkException, source: PythonSource) -> str | None:
    """File and line in the source's function that made the value which Spark could not compute; None if unknown."""
    for context in error.getQueryContext():
        if context.contextType() is QueryContextType.DataFrame:
            file, _, line = context.callSite().rpartition(":")
            if _is_of(source, file):
                return f"{file}:{line}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_of(source, frame.filename)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None


def _kind_of(rows: Any) -> str:
    """The type of a function's result that is not a DataFrame."""
    if isinstance(rows, DataFrame):
        return "a streaming one"
    return "None, as a function without return does" if rows is None else f"{type(rows).__module__}.{type(rows).__qualname__}"


def _load(source: PythonSource) -> Any:
    if source.code is None:
        module, _, name = source.function.partition(":")
        return attrgetter(name)(import_module(module))
    text = FunctionText(name=source.function, text=source.code, file=source.file, line=source.line)
    names: dict[str, Any] = {"__name__": source.function, "__file__": source.file}
    exec(text.compiled(), names)  # noqa: S102 - the DAG's own code, as it is in a script that a DAG submits
    if not linecache.getlines(source.file):  # the file does not exist here, but tracebacks should show its lines
        lines = [*("\n" for _ in range(source.line - 1)), *StringIO(source.code)]  # in Python's line numbering
        linecache.cache[source.file] = (sum(map(len, lines)), None, lines, source.file)
    return names[source.function]


def _is_of(source: PythonSource, file: str) -> bool:
    """Whether the source's function is in this file, which an executor may have unpacked anywhere."""
    module = source.function.partition(":")[0].replace(".", "/")
    return file.endswith(f"/{module}.py") if source.code is None else file == source.file


def _place(function: Any, source: PythonSource) -> tuple[str, int]:
    """File and line of the function."""
    code = getattr(function, "__code__", None)
    return (source.file, source.line) if code is None else (code.co_filename, code.co_firstlineno)


def _line_of(error: BaseException, file: str) -> int | None:
    """The innermost line of the file in the error's traceback."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return lines[-1] if lines else None


def _plain(value: Any) -> Any:
    """The value in JSON's types: lists instead of tuples, as Spark accepts lists where it accepts no tuples."""
    if isinstance(value, tuple):
        return [_plain(member) for member in value]
    return {key: _plain(member) for key, member in value.items()} if isinstance(value, Mapping) else value
