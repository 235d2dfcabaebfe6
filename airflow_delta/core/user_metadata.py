"""The user's own text in a commit (``userMetadata``): its maximum length, and whether the log can hold it."""

from __future__ import annotations

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.foreign_values import lone_surrogate

MAX_USER_METADATA = 100_000
"""Characters. The length is bounded because everything that loads a version parses its ``commitInfo``."""


def check_user_metadata(statement: str, text: str | None) -> None:
    """Return if the text can be stored in a commit, else raise ``InvalidStatementError``."""
    if isinstance(text, str) and len(text) > MAX_USER_METADATA:
        detail = (
            f"user_metadata must have at most {MAX_USER_METADATA} characters, found {len(text)}; write a longer text into a "
            "file, and its place into the commit"
        )
        raise InvalidStatementError(statement=statement, detail=detail)
    if isinstance(text, str) and (found := lone_surrogate(text)) is not None:
        detail = f"user_metadata must be a text that UTF-8 can hold, found the lone surrogate {found}; leave it out"
        raise InvalidStatementError(statement=statement, detail=detail)
