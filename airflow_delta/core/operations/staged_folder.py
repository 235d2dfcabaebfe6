"""Staged commits of a table: documents in ``_airflow_delta/staged``, and the decision on each.

A staged commit consists of one document, ``{id}.json``, that never changes, and its data files, which are where they would be
if it were committed. No reader sees them. Vacuums of every engine keep them, because files that no version references are kept
for the retention (``delta.deletedFileRetentionDuration``); the document expires before that.

Whether it is published or discarded is decided by exclusively creating ``{id}.decision``, so that only one of two concurrent
callers succeeds.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import Origin
from airflow_delta.core.actions.file_actions import DELETION_VECTOR
from airflow_delta.core.errors import (
    CorruptLogError,
    DeltaError,
    InvalidStatementError,
    StagedCommitDamagedError,
    StagedCommitNotFoundError,
)
from airflow_delta.core.json_text import parse_json
from airflow_delta.core.log.record_counts import record_counts
from airflow_delta.core.operations.unneeded_files import deletion_vector_files, lies_below_the_root, unencoded
from airflow_delta.core.statements.publish import StagedHandle
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.transaction.staged_commit import StagedCommit

STAGED_FOLDER = "_airflow_delta/staged"
"""Path below the table's root; starts with an underscore, so that no engine reads it as data and no vacuum deletes it."""

MOST_BYTES = 1 << 30
"""Most bytes of a document."""

AREA = r"(?s)^(?P<area>(?:_change_data/)?write-[0-9a-f]{32})/"
"""Matches the start of a path that a Spark statement has staged, in a directory of its own."""

Decision = Literal["publish", "discard"]

_MOST_DECISION_BYTES = 1 << 16
_MOST_PATHS = 100

_logger = logging.getLogger(__name__)


def staged_path(id: str) -> str:  # noqa: A002
    """Path of the document with this id, below the table's root."""
    return f"{STAGED_FOLDER}/{id}.json"


def staged_id(token: str) -> str:
    """The id of what the task with this token stages; it becomes the token of the commit, which differs from the task's."""
    return hashlib.sha256(f"staged by {token}".encode()).hexdigest()[:32]


# -- documents


def load(store: LogStore, handle: StagedHandle) -> tuple[StagedCommit, bytes]:
    """The staged commit, and the content of its document.

    Raises:
        StagedCommitNotFoundError: The document does not exist.
        StagedCommitDamagedError: The document cannot be read, or does not match the handle.
    """
    id, table = handle.id or "", store.table_uri  # noqa: A001
    path = staged_path(id)
    status = store.status(path) if id else None
    if status is None:
        raise StagedCommitNotFoundError(table=table, id=id)
    if status.size > MOST_BYTES:
        raise StagedCommitDamagedError(table=table, file=path, detail=f"it has {status.size} bytes")
    try:
        content = store.read(path)
    except FileNotFoundError:
        raise StagedCommitNotFoundError(table=table, id=id) from None
    if handle.digest is not None and hashlib.sha256(content).hexdigest() != handle.digest:
        raise StagedCommitDamagedError(table=table, file=path, detail="it is not what was staged: its SHA-256 is another one")
    return StagedCommit.from_content(content, id=id, table=table, path=path), content


def staged_files(staged: StagedCommit, table: str) -> pa.ChunkedArray:
    """Paths of all files that it adds, percent-decoded.

    Raises:
        StagedCommitDamagedError: A file lies outside of the table.
    """
    adds, removes, changes = staged.actions.adds, staged.actions.removes, staged.actions.changes
    vectors, known = (deletion_vector_files(files["deletion_vector"], table=table) for files in (adds, removes))
    vectors = vectors.filter(pc.invert(pc.is_in(vectors, known.combine_chunks())))
    pieces = [*staged.new_adds["path"].chunks, *changes["path"].chunks, *vectors.chunks]
    paths = unencoded(pa.chunked_array(pieces, pa.string()))
    if not pc.all(lies_below_the_root(paths), min_count=0).as_py():
        detail = "it names new files outside of the table"
        raise StagedCommitDamagedError(table=table, file=staged_path(staged.id), detail=detail)
    return paths


def missing_files(store: LogStore, paths: pa.ChunkedArray) -> list[str]:
    """The paths whose files do not exist; a statement's own directory is listed, other files are checked one by one."""
    areas = pc.struct_field(pc.extract_regex(paths, AREA), "area")
    listed = [file.path for area in areas.drop_null().unique().to_pylist() for file in store.list_all(area)]
    in_areas = paths.filter(areas.is_valid())
    missing: list[str] = in_areas.filter(pc.invert(pc.is_in(in_areas, pa.array(listed, pa.string())))).to_pylist()
    return missing + [path for path in paths.filter(areas.is_null()).to_pylist() if not store.exists(path)]


def handle_of(store: LogStore, handle: StagedHandle) -> dict[str, Any]:
    """The full handle of a staged commit, as XComs carry it.

    ``table``, ``id``, ``base_version`` and ``digest`` are those of ``StagedHandle``; ``operation`` is Delta's name; ``files``,
    ``rows`` (None if statistics lack them) and ``bytes`` are totals of the new files, ``paths`` their URIs (the first 100);
    ``created`` and ``expires`` are milliseconds since the epoch.

    Raises:
        StagedCommitNotFoundError: The document does not exist.
        StagedCommitDamagedError: The document cannot be read.
    """
    staged, content = load(store, handle)
    return described(store.table_uri, staged, content)


def described(table: str, staged: StagedCommit, content: bytes) -> dict[str, Any]:
    """The full handle, as of ``handle_of``."""
    adds, info = staged.new_adds, staged.actions.commit_info
    paths = unencoded(adds["path"].slice(0, _MOST_PATHS)).to_pylist()
    return {
        "table": table,
        "id": staged.id,
        "base_version": staged.base_version,
        "digest": hashlib.sha256(content).hexdigest(),
        "operation": info.operation if info else "UNKNOWN",
        "files": len(adds),
        "rows": pc.sum(record_counts(adds["stats"].combine_chunks()), skip_nulls=False, min_count=0).as_py(),
        "bytes": pc.sum(adds["size"], min_count=0).as_py(),
        "paths": [f"{table}/{path}" for path in paths],
        "created": staged.created,
        "expires": staged.expires,
    }


# -- decisions


def decide(store: LogStore, id: str, decision: Decision, origin: Origin) -> Decision:  # noqa: A002
    """Record the decision, unless there is one already; returns the decision in effect."""
    document = {"decision": decision, "by": dict(origin.record)}
    try:
        store.write_if_absent(_decision_path(id), json.dumps(document).encode())
    except FileExistsError:
        found = decision_of(store, id)
        if found is not None:
            return found
        raise
    return decision


def decision_of(store: LogStore, id: str) -> Decision | None:  # noqa: A002
    """The decision; None if undecided."""
    path = _decision_path(id)
    status = store.status(path)
    if status is None:
        return None
    try:
        document = parse_json(store.read(path)) if status.size <= _MOST_DECISION_BYTES else None
    except ValueError:
        document = None
    match document:
        case {"decision": "publish"}:
            return "publish"
        case {"decision": "discard"}:
            return "discard"
    raise StagedCommitDamagedError(table=store.table_uri, file=path, detail="it holds no decision")


def _decision_path(id: str) -> str:  # noqa: A002
    return f"{STAGED_FOLDER}/{id}.decision"


# -- vacuums


def unexpired_files(store: LogStore, now: int) -> Iterator[pa.Table]:
    """The files (``path``, ``deletion_vector``) of commits that may still be published, whatever a vacuum's retention is.

    Raises:
        StorageAccessError: The storage denies access, so that it is unknown what is staged.
        OSError: The storage does not answer.
    """
    for status in store.list_from(STAGED_FOLDER):
        id, _, kind = status.path.rpartition("/")[2].partition(".")  # noqa: A001
        if kind != "json":
            continue
        try:
            staged, _ = load(store, StagedHandle(table=store.table_uri, id=id))
            if staged.expires > now and decision_of(store, id) != "discard":
                yield staged.actions.adds.select(["path", "deletion_vector"])
                changes = staged.actions.changes["path"]
                yield pa.table([changes, pa.nulls(len(changes), DELETION_VECTOR)], names=["path", "deletion_vector"])
        except StagedCommitNotFoundError:  # deleted by another vacuum
            continue
        except (CorruptLogError, InvalidStatementError) as error:  # not a document of ours; a storage failure ends the vacuum
            _logger.warning("%s: what is staged cannot be published: %s", store.table_uri, error)


def sweep(store: LogStore, cutoff: int, now: int) -> None:
    """Delete expired staged commits from before ``cutoff``; storage failures are ignored, as such files have no effect.

    Args:
        store: The table's log store.
        cutoff: Milliseconds since the epoch; younger files may be decisions, or belong to documents being written.
        now: Milliseconds since the epoch.
    """
    with suppress(OSError, DeltaError):
        old = [status.path for status in store.list_from(STAGED_FOLDER) if status.modification_time < cutoff]
        unexpired = {id for id in set(map(_id_of, old)) if _is_unexpired(store, id, now)}  # noqa: A001
        if paths := [path for path in old if _id_of(path) not in unexpired]:
            store.delete(paths)


def _id_of(path: str) -> str:
    """The id in the name of a document or a decision file."""
    return path.rpartition("/")[2].partition(".")[0]


def _is_unexpired(store: LogStore, id: str, now: int) -> bool:  # noqa: A002
    try:
        return load(store, StagedHandle(table=store.table_uri, id=id))[0].expires > now
    except (StagedCommitNotFoundError, CorruptLogError, InvalidStatementError):
        return False
