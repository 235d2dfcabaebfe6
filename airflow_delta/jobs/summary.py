"""The outcome of a statement as one human-readable line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_delta.core.errors.conflict import run_of
from airflow_delta.core.foreign_values import natural_number, printable
from airflow_delta.core.statements.publish import STAGED_KEY
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.core.wording import counted
from airflow_delta.jobs.catalog_publication import DETAIL
from airflow_delta.jobs.result import ResultDocument

_ROWS = {
    "numTargetRowsUpdated": ("", "updated"),
    "numTargetRowsDeleted": ("", "deleted"),
    "numTargetRowsInserted": ("", "inserted"),
    "numUpdatedRows": ("", "updated"),
    "numDeletedRows": ("", "deleted"),
    "numOutputRows": ("row", "written"),
}
"""Delta's metrics that count rows: the noun (if any) and the verb for each.

The last one also counts copied rows of a MERGE.
"""

_MERGED = "numTargetRows"

_COUNTED = {
    "numSourceFiles": ("file", "loaded"),
    "numKnownFiles": ("", "loaded before"),
    "numChangedFiles": ("", "of these changed since"),
    "numWaitingFiles": ("file", "left for later"),
    "numRescuedRows": ("row", "set apart"),
    "numFilesToDelete": ("file", "to delete"),
    "numDeletedFiles": ("file", "deleted"),
    "numRestoredFiles": ("file", "restored"),
    "numConvertedFiles": ("file", "converted"),
    "numCopiedFiles": ("file", "cloned"),
    "numActions": ("action", "written"),
    "numCompactedCommits": ("commit", "compacted"),
    "numLogFiles": ("log file", "deleted"),
    "numManifests": ("manifest", ""),
    "numExpectations": ("expectation", "met"),
    "numStatements": ("statement", ""),
    "numCommits": ("commit", ""),
    "numPublished": ("", "published"),
    "numDiscarded": ("", "discarded"),
}
"""Other metrics, in the same form."""

_NOTHING = {"COPY INTO": "no file found, neither new nor loaded before"}
"""Text for an operation without metrics, where the reason may be a wrong path."""

_LISTED = {"PIN": ("pins", "table", "pinned"), "HEALTH": ("findings", "finding", "")}
"""Operations whose details hold a list: its key, the noun that is counted, and the verb."""

_REMOVED = ("numTargetFilesRemoved", "numRemovedFiles")
_ADDED = ("numTargetFilesAdded", "numAddedFiles", "numFiles")
_MARKED = ("numTargetDeletionVectorsAdded", "numDeletionVectorsAdded")
_REWRITING = frozenset({"MERGE", "UPDATE", "DELETE", "OPTIMIZE", "REORG", "MAINTENANCE"})
"""Operations that rewrite the files that they remove; other operations only remove them."""


def summary(document: ResultDocument, *, seconds: float | None = None) -> str:
    """One line such as ``MERGE: 10 updated, 10 inserted, 2 of 16 files rewritten, version 1, 18.8 s``.

    Args:
        document: A document with an outcome.
        seconds: How long the task took; not shown if another try has made the commit.
    """
    result = document.outcome
    if result is None:
        raise ValueError("only the document of an outcome can be summed up")
    numbers = {name: number for name, value in result.metrics.items() if (number := natural_number(value))}
    parts = [*_rows(numbers), *_files(result.operation, numbers, document, is_dry_run=result.dry_run)]
    if result.operation in _LISTED:
        name, *words = _LISTED[result.operation]
        parts.append(_said(len(result.details.get(name, ())), *words))
    if result.conflicts:
        parts.append(f"{counted(len(result.conflicts), 'concurrent commit')} met")
    is_staged = STAGED_KEY in result.details
    if is_staged:
        parts.append(_staged(result.version))
    parts.extend(_catalog(result.details.get(DETAIL)))
    if not parts:
        parts.append("committed" if result.committed else _NOTHING.get(result.operation, "nothing to do"))
    if result.dry_run:
        parts.append("dry run")
    if not is_staged:  # it has no version before it is published
        parts.append(f"version {result.version}")
    if result.already_committed:
        # Any task may have published the handle first; the commit only records the task that staged it.
        parts.append("published before" if result.operation == "PUBLISH" else f"committed by {_committing_try(document)}")
    elif seconds is not None:
        parts.append(f"{seconds:,.1f} s")
    return printable(f"{result.operation}: {', '.join(parts)}")


def _rows(numbers: Mapping[str, int]) -> Iterator[str]:
    is_merge = any(name.startswith(_MERGED) for name in numbers)
    for name, words in _ROWS.items():
        if name in numbers and not (is_merge and name == "numOutputRows"):
            yield _said(numbers[name], *words)


def _files(operation: str, numbers: Mapping[str, int], document: ResultDocument, *, is_dry_run: bool) -> Iterator[str]:
    removed, added, marked = (_first(numbers, names) for names in (_REMOVED, _ADDED, _MARKED))
    if marked:
        yield f"{counted(marked, 'file')} marked"
    if removed:
        facts, outcome = document.table_facts, document.outcome
        is_known = not is_dry_run and outcome is not None and facts.get("version") == outcome.version
        is_staged = outcome is not None and STAGED_KEY in outcome.details  # the facts do not include it
        before = facts.get("files", 0) + (0 if is_staged else removed - added) if is_known else 0
        files = f"{removed:,} of {counted(before, 'file')}" if before >= removed else counted(removed, "file")
        yield f"{files} {'rewritten' if operation in _REWRITING else 'removed'}"
    for name, words in _COUNTED.items():
        if name in numbers and not (name == "numFilesToDelete" and "numDeletedFiles" in numbers):
            yield _said(numbers[name], *words)


def _said(count: int, noun: str, what: str) -> str:
    """``3 files loaded``; without a noun ``3 updated``, without a verb ``3 statements``."""
    return " ".join(filter(None, [counted(count, noun) if noun else f"{count:,}", what]))


def _catalog(entry: object) -> Iterator[str]:
    """Whether the table's name was dropped from, or published in, its catalog."""
    if isinstance(entry, Mapping) and entry.get("dropped"):
        yield f"{entry.get('name')} dropped from the catalog {entry.get('catalog')}"
    elif isinstance(entry, Mapping) and entry.get("published"):
        yield f"published as {entry.get('name')} in the catalog {entry.get('catalog')}"


def _staged(base_version: int) -> str:
    """Text for a staged commit, which has no version yet."""
    staged = "staged" if base_version == NO_TABLE else f"staged on top of version {base_version}"
    return f"{staged}, to be published later"


def _first(numbers: Mapping[str, int], names: tuple[str, ...]) -> int:
    return next((numbers[name] for name in names if name in numbers), 0)


def _committing_try(document: ResultDocument) -> str:
    """The try that made the commit, if the history shows it."""
    version = None if document.outcome is None else document.outcome.version
    number = next((run_of(entry).get("try_number") for entry in document.history if entry.get("version") == version), None)
    return "another try of this task" if natural_number(number) is None else f"try {number} of this task"
