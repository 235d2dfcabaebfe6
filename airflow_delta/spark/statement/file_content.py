"""Interprets Spark's errors about a file that it cannot read: which file, and why."""

from __future__ import annotations

import re

from airflow_delta.core.statements import FileSource, PythonSource, Source, SqlSource
from airflow_delta.spark.errors import SourceUnreadableError

_FAILED_READ = re.compile(
    r"\[FAILED_READ_FILE[\w.]*\] [^\n]*? file (?P<file>[^\n]{1,4096}?)\.?(?: Could not read footer\.[^\[]{1,600}?)? +SQLSTATE"
)
_OTHER_TYPE = re.compile(
    r"\[FAILED_READ_FILE\.PARQUET_COLUMN_DATA_TYPE_MISMATCH\] [^\n]*? file (?P<file>[^\n]{1,4096}?)\. "
    r"(?P<detail>Data type mismatch[^\n]{1,1000}?)\.? +SQLSTATE"
)
_CAUSE = re.compile(r"^Caused by: (?:[\w.$]{1,500}: )?(?P<cause>.{1,1000}(?:\n(?!\t|Caused).{1,500}){0,4})", re.MULTILINE)
_OF_CONTENT = ("[MALFORMED_", "CSV header", "is not a Parquet file", "[CANNOT_READ_FILE_FOOTER]", "ZipException")
"""Texts in causes that every retry would meet, until the file is fixed."""


def content_failure(error: Exception, advice: str) -> SourceUnreadableError | None:
    """The typed error if a file's content is broken, or does not fit; None for all other errors.

    Args:
        error: The exception that Spark raised.
        advice: What to do about a row that does not fit the columns.
    """
    text = str(error)
    if other := _OTHER_TYPE.search(text):
        detail = f"{other['detail']}; name the type of the column by schema, or rewrite the file"
        return SourceUnreadableError(source=other["file"], detail=detail)
    failed, causes = _FAILED_READ.search(text), [found["cause"] for found in _CAUSE.finditer(text)]
    if failed is None or not any(sign in cause for sign in _OF_CONTENT for cause in causes):
        return None
    detail = " ".join(causes[-1].split())
    if any("[MALFORMED_RECORD" in cause for cause in causes):  # the last cause may only be 'For input string: "x"'
        detail = f"a row does not fit the columns ({detail}); {advice}"
    return SourceUnreadableError(source=failed["file"], detail=detail)


def reads_files(source: Source | None) -> bool:
    """Whether a source reads files."""
    match source:
        case SqlSource():
            return any(isinstance(view, FileSource) for view in source.views.values())
        case PythonSource():
            return any(isinstance(argument, FileSource) for argument in source.arguments.values())
        case _:
            return isinstance(source, FileSource)
