"""What is staged for a table: documents in ``_airflow_delta/staged``, and what was decided of each.

A staged commit is one document, ``{id}.json``, that never changes, and its data files, which lie where they would lie had it
been committed. No reader sees them. Vacuums of every engine spare them, because files that no version names are kept for the
retention (``delta.deletedFileRetentionDuration``); before that time is over, the document has expired.

What becomes of it is decided by one exclusive create, that of ``{id}.decision``: who discards and who publishes cannot both be
right.
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
"""Below a table. The name starts with an underscore: no engine takes it for data, no vacuum touches it."""

MOST_BYTES = 1 << 30
"""Of a document."""

AREA = r"(?s)^(?P<area>(?:_change_data/)?write-[0-9a-f]{32})/"
"""How the path of a file begins that a Spark statement has staged, in a directory of its own."""

Decision = Literal["publish", "discard"]

_MOST_DECISION_BYTES = 1 << 16
_MOST_PATHS = 100

_logger = logging.getLogger(__name__)


def staged_path(id: str) -> str:  # noqa: A002
    """Where the document of this id lies, below the table's root."""
    return f"{STAGED_FOLDER}/{id}.json"


def staged_id(token: str) -> str:
    """The id of what the task with this token stages; its commit has another token than the task."""
    return hashlib.sha256(f"staged by {token}".encode()).hexdigest()[:32]


# -- documents


def load(store: LogStore, handle: StagedHandle) -> tuple[StagedCommit, bytes]:
    """What is staged, and its document.

    Raises:
        StagedCommitNotFoundError: There is no such document.
        StagedCommitDamagedError: It cannot be read, or is not the one that the handle names.
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
    """All files that it brings, decoded.

    Raises:
        StagedCommitDamagedError: One of them lies outside of the table.
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
    """Those that are not there; a statement's directory is listed, other files are requested one by one."""
    areas = pc.struct_field(pc.extract_regex(paths, AREA), "area")
    listed = [file.path for area in areas.drop_null().unique().to_pylist() for file in store.list_all(area)]
    in_areas = paths.filter(areas.is_valid())
    missing: list[str] = in_areas.filter(pc.invert(pc.is_in(in_areas, pa.array(listed, pa.string())))).to_pylist()
    return missing + [path for path in paths.filter(areas.is_null()).to_pylist() if not store.exists(path)]


def handle_of(store: LogStore, handle: StagedHandle) -> dict[str, Any]:
    """The whole handle of what is staged, as XComs carry it.

    ``table``, ``id``, ``base_version`` and ``digest`` are those of ``StagedHandle``; ``operation`` is Delta's name,
    ``files``, ``rows`` (None where statistics lack them) and ``bytes`` are of the new files, ``paths`` their URIs (the first
    100), ``created`` and ``expires`` milliseconds since the epoch.

    Raises:
        StagedCommitNotFoundError: There is no such document.
        StagedCommitDamagedError: It cannot be read.
    """
    staged, content = load(store, handle)
    return described(store.table_uri, staged, content)


def described(table: str, staged: StagedCommit, content: bytes) -> dict[str, Any]:
    """The whole handle, as of ``handle_of``."""
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
    """What becomes of it: this, unless it was decided before."""
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
    """What was decided; None where nothing was."""
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
    """The files (``path``, ``deletion_vector``) that may still be published, whatever the retention of a vacuum.

    Raises:
        StorageAccessError: The storage refuses, so that what is staged is not known.
        OSError: It does not answer.
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
        except StagedCommitNotFoundError:  # swept by another vacuum
            continue
        except (CorruptLogError, InvalidStatementError) as error:  # no document of ours; a storage that fails ends the vacuum
            _logger.warning("%s: what is staged cannot be published: %s", store.table_uri, error)


def sweep(store: LogStore, cutoff: int, now: int) -> None:
    """Delete what was staged before ``cutoff`` and has expired, as far as the storage lets us: it is only untidy.

    Args:
        store: The table.
        cutoff: Milliseconds since the epoch; files that are younger may be decisions, or of documents that are being written.
        now: Likewise.
    """
    with suppress(OSError, DeltaError):
        old = [status.path for status in store.list_from(STAGED_FOLDER) if status.modification_time < cutoff]
        unexpired = {id for id in set(map(_id_of, old)) if _is_unexpired(store, id, now)}  # noqa: A001
        if paths := [path for path in old if _id_of(path) not in unexpired]:
            store.delete(paths)


def _id_of(path: str) -> str:
    """Of the document that a file of the folder is, or decides on."""
    return path.rpartition("/")[2].partition(".")[0]


def _is_unexpired(store: LogStore, id: str, now: int) -> bool:  # noqa: A002
    try:
        return load(store, StagedHandle(table=store.table_uri, id=id))[0].expires > now
    except (StagedCommitNotFoundError, CorruptLogError, InvalidStatementError):
        return False
