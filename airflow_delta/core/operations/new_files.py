"""Finds the files below a path that a table has not loaded yet: one listing, and an Arrow join."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.operations.loaded_files import LOADED_FILE, LoadedFiles
from airflow_delta.core.operations.vacuum_candidates import list_files_below_root
from airflow_delta.core.statements.fields import shortened
from airflow_delta.core.storage.log_store import LogStore

_HIDDEN = r"(^|/)(\.|_[^=/]*(/|$))|\._COPYING_$"
"""Hidden as in Spark: names beginning with a dot or underscore (except ``_column=value``), and copies in progress."""

_PARTITIONED = r"^[^/=]+=[^/]*/"

_TOKEN = re.compile(r"\\.|\*\*/|\*\*|\[[!^]?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_SPAN = re.compile(r"(\\.|.)(?:-(\\.|.))?", re.DOTALL)
"""One character of a character set, or a range; a dash at either end stands for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChoice:
    """Which files to load.

    Attributes:
        pattern: Glob of their paths, or of their names if it has no slash; None is every file.
        changed_before: Milliseconds since the epoch: files modified later have to wait.
        max_files: Most files, oldest first; with ``look_back`` in the order of paths, because the next listing starts at the
            last one.
        max_bytes: Most bytes, in the same order; at least one file is loaded.
        look_back: How many of the last known paths that match the pattern are listed again; None lists everything.
        reload: Whether files loaded before are loaded again.
    """

    pattern: str | None = None
    changed_before: int | None = None
    max_files: int | None = None
    max_bytes: int | None = None
    look_back: int | None = None
    reload: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NewFiles:
    """The result of one search.

    Attributes:
        root: The folder's place, in the form used for loaded files.
        files: The files to load, columns ``LISTED_FILE``, with paths below the folder.
        known: Number of files found that were loaded before.
        changed: How many of those have another size or modification time than when they were loaded.
        waiting: Number of new files left for a later load.
    """

    root: str
    files: pa.Table
    known: int
    changed: int
    waiting: int

    @property
    def are_any(self) -> bool:
        """Whether the search found any file at all."""
        return bool(len(self.files) or self.known or self.waiting)

    @property
    def size(self) -> int:
        """Size of the files to load, in bytes."""
        return int(pc.sum(self.files["size"], min_count=0).as_py())

    @property
    def places(self) -> pa.ChunkedArray:
        """The places of the files to load, in the form used for loaded files."""
        return _places(self.root, self.files)

    @property
    def partitionings(self) -> Mapping[tuple[str, ...], str]:
        """The columns of the folders ``column=value`` above a file, in lower case, with an example of such a file.

        Files whose first folder is of another kind are in no partition: their columns are ``()``.
        """
        paths = self.files["path"]
        kinds = pc.replace_substring_regex(pc.replace_substring_regex(paths, "(?s)[^/]*$", ""), "(?s)=[^/]*/", "=/")
        examples = pa.table([kinds, paths], names=["kind", "path"]).group_by("kind", use_threads=False)
        found: dict[tuple[str, ...], str] = {}
        for row in examples.aggregate([("path", "first")]).to_pylist():
            columns = tuple(unquote(name[:-1]).lower() for name in row["kind"].split("/") if name.endswith("="))
            found.setdefault(columns if re.match(_PARTITIONED, row["kind"]) else (), row["path_first"])
        return found

    def loaded_at(self, now: int) -> pa.Table:
        """The files to load as they will be recorded, columns ``LOADED_FILE``."""
        times = pa.repeat(pa.scalar(now, pa.int64()), len(self.files))
        columns = [self.places, self.files["size"], self.files["modification_time"], times]
        return pa.table(columns, schema=LOADED_FILE)


def find_new_files(source: LogStore, root: str, loaded: LoadedFiles, choice: FileChoice) -> NewFiles:
    """Search for files that were not loaded before.

    Args:
        source: The folder.
        root: The folder's place, in the form used for loaded files.
        loaded: The files that the table has loaded.
        choice: Which files to load.

    Raises:
        InvalidStatementError: The pattern is not a glob.
        OSError: The storage does not answer.
    """
    start = "" if choice.look_back is None else _start(root, loaded, choice.look_back, choice.pattern)
    found = list_files_below_root(source, start)
    is_hidden = pc.match_substring_regex(found["path"], _HIDDEN)
    found = found.filter(pc.and_not(pc.greater(found["size"], 0), is_hidden))  # empty files may be filled later
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

    Alternatives in braces may contain all of these, nested braces included. A set that begins with ``!``, or with ``^`` as in
    Hadoop's globs, matches all other characters. A backslash makes the next character literal.

    Raises:
        InvalidStatementError: It contains an invalid character set, such as ``[b-a]``.
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
    ends: dict[int, int] = {}  # end of each brace group, by its start; an unmatched brace is literal
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
    """Part of a character set: the range from first to last without the slash, which no set matches."""
    low, high = first[-1], (last or first)[-1]
    if low <= "/" <= high:
        below, above = (low, chr(ord("/") - 1)), (chr(ord("/") + 1), high)
        return "".join(f"{_literal(one)}-{_literal(other)}" for one, other in (below, above) if one <= other)
    return _literal(low) if low == high else f"{_literal(low)}-{_literal(high)}"


def _literal(token: str) -> str:
    """A literal character, possibly escaped by a backslash."""
    character = token[-1]
    return re.escape(character) if character.isascii() else character


def _places(root: str, files: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(root.rstrip("/"), files["path"], "/")


def _start(root: str, loaded: LoadedFiles, look_back: int, pattern: str | None) -> str:
    """The path below the folder from which to list: ``look_back`` known files of this pattern back; others do not count."""
    prefix = f"{root.rstrip('/')}/"
    known = loaded.files.select(["path"])
    known = known.filter(pc.starts_with(known["path"], prefix))
    if pattern is not None:
        below = pc.utf8_slice_codeunits(known["path"], len(prefix))
        known = known.filter(pc.match_substring_regex(below, glob_regex(pattern)))
    last = pc.select_k_unstable(known, look_back, [("path", "descending")])
    return pc.min(known["path"].take(last)).as_py().removeprefix(prefix) if len(last) else ""


def _limited(files: pa.Table, choice: FileChoice) -> pa.Table:
    """The files that fit the limits: the oldest ones, or with ``look_back`` the first ones by path."""
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
