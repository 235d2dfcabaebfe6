"""Errors of the command line itself, which have an exit code of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_delta.core.errors import InvalidStatementError


class CommandLineError(Exception):
    """An argument is invalid, whatever the table holds; its cause, a ``DeltaError``, says which and why."""


@contextmanager
def arguments() -> Iterator[None]:
    """Turn an ``InvalidStatementError``, raised while arguments are parsed, into a ``CommandLineError``."""
    try:
        yield
    except InvalidStatementError as error:
        raise CommandLineError from error
