"""The files below a path that a table has not loaded yet: one listing, and a join in Arrow."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.operations.loaded_files import LOADED_FILE, LoadedFiles
from airflow_delta.core.operations.vacuum_candidates import list_files_below_root
from airflow_delta.core.statements.fields import shortened
from airflow_delta.core.storage.log_store import LogStore

_HIDDEN = r"(^|/)(\.|_[^=/]*(/|$))|\._COPYING_$"
"""As Spark has it: names that begin with a dot or an underscore (but ``_column=value``), and copies under way."""

_PARTITIONED = r"^[^/=]+=[^/]*/"

_TOKEN = re.compile(r"\\.|\*\*/|\*\*|\[[!^]?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_SPAN = re.compile(r"(\\.|.)(?:-(\\.|.))?", re.DOTALL)
"""A character of a set, or two with all those between them; a dash at either end is itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChoice:
    """Which files are wanted.

    Attributes:
        pattern: Glob of their paths, or of their names where it has no slash; None is every one.
        changed_before: Milliseconds since the epoch: files that changed later wait.
        max_files: Most files, oldest first; with ``look_back`` in the order of their paths, as a later look begins at the last.
        max_bytes: Most bytes, likewise; at least one file.
        look_back: How many of the last known paths of the pattern are listed again; None lists everything.
        reload: Whether known files are wanted too.
    """

    pattern: str | None = None
    changed_before: int | None = None
    max_files: int | None = None
    max_bytes: int | None = None
    look_back: int | None = None
    reload: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NewFiles:
    """What one look found.

    Attributes:
        root: The place of the folder, as loaded files are named.
        files: The files to load, columns ``LISTED_FILE``, below the folder.
        known: Files that were found and loaded before.
        changed: How many of these have another size or time than when they were loaded.
        waiting: New files that are left for a later load.
    """

    root: str
    files: pa.Table
    known: int
    changed: int
    waiting: int

    @property
    def are_any(self) -> bool:
        """Whether the look has found a file at all."""
        return bool(len(self.files) or self.known or self.waiting)

    @property
    def size(self) -> int:
        """Bytes of the files to load."""
        return int(pc.sum(self.files["size"], min_count=0).as_py())

    @property
    def places(self) -> pa.ChunkedArray:
        """The files to load, as loaded files are named."""
        return _places(self.root, self.files)

    @property
    def are_partitioned(self) -> bool:
        """Whether each of them lies in a folder ``column=value``."""
        return len(self.files) > 0 and bool(pc.all(pc.match_substring_regex(self.files["path"], _PARTITIONED)).as_py())

    def loaded_at(self, now: int) -> pa.Table:
        """The files to load as they are remembered, ``LOADED_FILE``."""
        times = pa.repeat(pa.scalar(now, pa.int64()), len(self.files))
        columns = [self.places, self.files["size"], self.files["modification_time"], times]
        return pa.table(columns, schema=LOADED_FILE)


def find_new_files(source: LogStore, root: str, loaded: LoadedFiles, choice: FileChoice) -> NewFiles:
    """Look for files that were not loaded before.

    Args:
        source: The folder.
        root: Its place, as loaded files are named.
        loaded: What the table remembers.
        choice: Which files are wanted.

    Raises:
        InvalidStatementError: The pattern is not a glob.
        OSError: The storage does not answer.
    """
    start = "" if choice.look_back is None else _start(root, loaded, choice.look_back, choice.pattern)
    found = list_files_below_root(source, start)
    is_hidden = pc.match_substring_regex(found["path"], _HIDDEN)
    found = found.filter(pc.and_not(pc.greater(found["size"], 0), is_hidden))  # what is empty may be filled later
    if choice.pattern is not None:
        found = found.filter(pc.match_substring_regex(found["path"], glob_regex(choice.pattern)))
    positions = loaded.positions(_places(root, found))
    is_known = pc.is_valid(positions)
    remembered = loaded.files.select(["size", "modification_time"]).take(positions.filter(is_known))
    known = found.filter(is_known)
    is_same = pc.and_(
        pc.equal(known["size"], remembered["size"]), pc.equal(known["modification_time"], remembered["modification_time"])
    )
    wanted = found if choice.reload else found.filter(pc.invert(is_known))
    chosen = _limited(wanted, choice)
    changed = len(known) - int(pc.sum(is_same, min_count=0).as_py())
    return NewFiles(root=root, files=chosen, known=len(known), changed=changed, waiting=len(wanted) - len(chosen))


def glob_regex(pattern: str) -> str:
    """The regular expression (RE2) of a glob: ``*`` and ``?`` within a name, ``**`` over folders, ``[...]`` and ``{a,b}``.

    Choices may hold all of these, choices too. A set that begins with ``!``, or as in Hadoop's globs with ``^``, stands for all
    other characters. A character behind a backslash stands for itself.

    Raises:
        InvalidStatementError: It holds what is no set of characters, such as ``[b-a]``.
    """
    body = _regex_of(pattern)
    regex = f"(?s)^{body}$" if "/" in pattern else f"(?s)(^|/){body}$"
    try:
        pc.match_substring_regex(pa.array([""]), regex)
    except pa.ArrowInvalid as error:
        detail = f"the pattern {shortened(pattern)} is not a glob: {error!s:.100}"
        raise InvalidStatementError(statement="a glob", detail=detail) from None
    return regex


def _regex_of(pattern: str) -> str:
    parts = _TOKEN.findall(pattern)
    opened: list[int] = []
    ends: dict[int, int] = {}  # of each choice, by its beginning; a brace without its other half is itself
    for position, part in enumerate(parts):
        if part == "{":
            opened.append(position)
        elif part == "}" and opened:
            ends[opened.pop()] = position
    signs = {**dict.fromkeys(ends, "("), **dict.fromkeys(ends.values(), ")")}
    found, depth = [], 0
    for position, part in enumerate(parts):
        sign = signs.get(position, "|" if part == "," and depth else None)
        depth += {"(": 1, ")": -1}.get(sign or "", 0)
        found.append(_token_regex(part) if sign is None else sign)
    return "".join(found)


def _token_regex(token: str) -> str:
    match token:
        case "**/":
            return "(.*/)?"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
    if token[0] == "[" and len(token) > 1:
        negated = token[1] in "!^"
        members = "".join(_span_regex(*span) for span in _SPAN.findall(token[2 if negated else 1 : -1]))
        return f"[^/{members}]" if negated else f"[{members}]"
    return _literal(token)


def _span_regex(first: str, last: str) -> str:
    """Part of a set of characters: all from the first to the last but the slash, which no set stands for."""
    low, high = first[-1], (last or first)[-1]
    if low <= "/" <= high:
        below, above = (low, chr(ord("/") - 1)), (chr(ord("/") + 1), high)
        return "".join(f"{_literal(one)}-{_literal(other)}" for one, other in (below, above) if one <= other)
    return _literal(low) if low == high else f"{_literal(low)}-{_literal(high)}"


def _literal(token: str) -> str:
    """A character that stands for itself, alone or behind a backslash."""
    character = token[-1]
    return re.escape(character) if character.isascii() else character


def _places(root: str, files: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(root.rstrip("/"), files["path"], "/")


def _start(root: str, loaded: LoadedFiles, look_back: int, pattern: str | None) -> str:
    """The path below the folder at which the last known ones of the pattern begin: other loads may know files far behind."""
    prefix = f"{root.rstrip('/')}/"
    known = loaded.files.select(["path"])
    known = known.filter(pc.starts_with(known["path"], prefix))
    if pattern is not None:
        below = pc.utf8_slice_codeunits(known["path"], len(prefix))
        known = known.filter(pc.match_substring_regex(below, glob_regex(pattern)))
    last = pc.select_k_unstable(known, look_back, [("path", "descending")])
    return pc.min(known["path"].take(last)).as_py().removeprefix(prefix) if len(last) else ""


def _limited(files: pa.Table, choice: FileChoice) -> pa.Table:
    """The first of the files, as many as are allowed: the oldest, or with ``look_back`` those before all others by path."""
    is_by_path = choice.look_back is not None
    if choice.changed_before is not None:
        files = files.sort_by("path") if is_by_path else files
        is_due = pc.less_equal(files["modification_time"], choice.changed_before)
        first = pc.index(is_due, False).as_py() if is_by_path else -1
        files = files.filter(is_due) if first < 0 else files.slice(0, first)
    if choice.max_files is None and choice.max_bytes is None:
        return files
    files = files.sort_by([*([] if is_by_path else [("modification_time", "ascending")]), ("path", "ascending")])
    most = len(files) if choice.max_files is None else min(choice.max_files, len(files))
    if choice.max_bytes is not None and len(files):
        fitting = pc.sum(pc.less_equal(pc.cumulative_sum(files["size"]), choice.max_bytes)).as_py()
        most = min(most, max(1, fitting))
    return files.slice(0, most)
