"""Work that follows a commit, such as a checkpoint."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from airflow_delta.core.actions import CommitActions, Metadata
from airflow_delta.core.foreign_values import printable_lines
from airflow_delta.core.transaction.commit_result import CommitResult

PostCommitHook: TypeAlias = Callable[[CommitResult, CommitActions, Metadata], Mapping[str, Any] | None]
"""Gets the result, the actions as written and the metadata as committed; returns what to add to the result, or None."""

_logger = logging.getLogger(__name__)


def run_hooks(
    hooks: Iterable[PostCommitHook], table: str, result: CommitResult, actions: CommitActions, metadata: Metadata
) -> CommitResult:
    """Run every hook, even if others fail; returns the result with what they report and what failed."""
    done: dict[str, Any] = {}
    failures: list[str] = []
    for hook in hooks:
        try:
            done |= hook(result, actions, metadata) or {}
        except Exception as error:  # noqa: BLE001 - the commit stands, whatever happens after it
            _logger.warning(
                "%s: version %d is committed, but work after it failed:\n%s",
                table,
                result.version,
                printable_lines(traceback.format_exc()),
            )
            failures.append(f"{type(error).__name__}: {error}")
    return replace(result, after_commit=done, hook_failures=tuple(failures))
