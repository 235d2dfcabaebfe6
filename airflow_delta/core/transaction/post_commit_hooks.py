"""Work that follows a commit, such as a checkpoint."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from airflow_delta.core.actions import CommitActions, Metadata
from airflow_delta.core.foreign_values import printable_lines
from airflow_delta.core.transaction.commit_result import CommitResult

PostCommitHook: TypeAlias = Callable[[CommitResult, CommitActions, Metadata], None]
"""Gets what was written, and the table's metadata as committed."""

_logger = logging.getLogger(__name__)


def run_hooks(
    hooks: Iterable[PostCommitHook], table: str, result: CommitResult, actions: CommitActions, metadata: Metadata
) -> Iterator[str]:
    """Run each of them, whatever becomes of the others; gives what went wrong, as the result reports it."""
    for hook in hooks:
        try:
            hook(result, actions, metadata)
        except Exception as error:  # noqa: BLE001 - the commit stands, whatever happens after it
            _logger.warning(
                "%s: version %d is committed, but work after it failed:\n%s",
                table,
                result.version,
                printable_lines(traceback.format_exc()),
            )
            yield f"{type(error).__name__}: {error}"
