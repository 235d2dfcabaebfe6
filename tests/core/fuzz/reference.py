"""A slow, simple replay of a log with plain Python objects: what the core must answer, or may refuse.

It has three outcomes. A state (or rows): the core must give the same, or raise a ``DeltaError``. ``MalformedError``: the core
must raise a ``DeltaError``. ``UnclearError``: the bytes violate the protocol in a way that may be tolerated (a number instead
of a text in an action that other engines read leniently, a duplicate key in an object), so any answer or ``DeltaError`` will
do.
"""

import io
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, combinations
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

# Versions are longs: no writer comes near the greatest one, and file names with greater ones do not belong to the log.
COMMIT = re.compile(r"_delta_log/(0[0-8]\d{18})\.json")
COMPACTED = re.compile(r"_delta_log/(0[0-8]\d{18})\.(0[0-8]\d{18})\.compacted\.json")
CLASSIC = re.compile(r"_delta_log/(0[0-8]\d{18})\.checkpoint\.parquet")
PART = re.compile(r"_delta_log/(0[0-8]\d{18})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
V2 = re.compile(r"_delta_log/(0[0-8]\d{18})\.checkpoint\.[^.]+\.(json|parquet)")
INT32, INT64 = 1 << 31, 1 << 63
DEEP = 900  # levels of nesting that Python's parser accepts


class MalformedError(Exception):
    """The core must refuse this."""


class UnclearError(Exception):
    """The core may refuse this or accept it."""


@dataclass
class State:
    """The state of a log at one version; actions as JSON objects without nulls."""

    version: int
    protocol: dict = None
    metadata: dict = None
    transactions: dict = field(default_factory=dict)
    domains: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)
    tombstones: dict = field(default_factory=dict)


# -- which files


def versions(files):
    """Versions of which the log has any usable file; and those of commits alone."""
    commits = {int(match[1]) for path in files if (match := COMMIT.fullmatch(path))}
    return commits | {version for version, _ in _checkpoints(files)}, commits


def _checkpoints(files):
    """(version, paths) of every complete checkpoint."""
    parts, found = {}, []
    for path, content in files.items():
        if (match := CLASSIC.fullmatch(path) or V2.fullmatch(path)) and content and not PART.fullmatch(path):
            found.append((int(match[1]), (path,)))
        if (match := PART.fullmatch(path)) and content:
            parts.setdefault((int(match[1]), int(match[3])), {})[int(match[2])] = path
    for (version, count), paths in parts.items():
        if paths.keys() == set(range(1, count + 1)):
            found.append((version, tuple(paths[number] for number in sorted(paths))))
    return sorted(found)


@dataclass(frozen=True)
class Route:
    """One way to rebuild a version: the files of a checkpoint, if any, and of the commits after it."""

    checkpoint: tuple = ()
    commits: tuple = ()


def routes(files, version):
    """Every way to rebuild ``version``. If files contradict each other, either is acceptable."""
    ranges = [(int(match[1]), int(match[2]), path) for path in files if (match := COMPACTED.fullmatch(path))]
    beginnings = [(at + 1, paths) for at, paths in reversed(_checkpoints(files)) if at <= version]
    found = {}
    for first, checkpoint in [*beginnings, (0, ())]:
        for chosen in chain.from_iterable(combinations(ranges, count) for count in range(len(ranges) + 1)):
            commits = _covering(files, first, version, {start: (end, path) for start, end, path in chosen if start <= end})
            if commits is not None:
                found[Route(checkpoint, commits)] = None
    return list(found)


def _covering(files, first, last, ranges):
    """The files that cover these commits; None if one is missing."""
    paths = []
    while first <= last:
        end, path = ranges.get(first, (last + 1, ""))
        if end > last:
            end, path = first, f"_delta_log/{first:020}.json"
        if path not in files:
            return None
        paths.append(path)
        first = end + 1
    return tuple(paths)


# -- replay


def replayed(files, version, route=None):
    """The state at ``version``, by this route or from the first commit on."""
    state = State(version)
    route = route or Route(commits=_covering(files, 0, version, {}))
    if route.checkpoint:
        named = Counter()
        for action in _checkpoint_actions(files, route.checkpoint):
            _apply([action], state)
            named.update(key for key in ("add", "remove") if action.get(key) is not None)
        if named != Counter(add=len(state.files), remove=len(state.tombstones)):
            raise UnclearError("a checkpoint that names a file twice")
    for path in route.commits:
        _apply(commit_actions(files[path]), state)
    if state.protocol is None or state.metadata is None:
        raise MalformedError("no protocol or no metadata")
    return state


def commit_actions(content):
    """The actions of a commit file."""
    return [action for line in content.split(b"\n") if line.strip() and (action := _parsed(line))]


def _parsed(line):
    is_needed = not line.lstrip().startswith((b'{"commitInfo"', b'{"cdc"', b'{"unknown'))
    if line.count(b"[") + line.count(b"{") > DEEP:
        raise UnclearError("deep")
    try:
        document = json.loads(line.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except ValueError as error:
        raise (MalformedError if is_needed else UnclearError)(str(error)) from error
    if not isinstance(document, dict):
        raise MalformedError("no object")
    if "\\ud" in line.decode().lower():
        raise UnclearError("perhaps a lone surrogate")
    return document


def _unique(pairs):
    if len(dict(pairs)) < len(pairs):
        raise UnclearError("a key twice")
    return dict(pairs)


def _no_constant(name):
    raise UnclearError(name)


def _checkpoint_actions(files, paths):
    for path in paths:
        if path not in files:
            raise MalformedError(f"{path} is missing")
        actions = commit_actions(files[path]) if path.endswith(".json") else _parquet_actions(files[path])
        for action in actions:
            if action.get("sidecar") is not None:
                sidecar = _Fields(action["sidecar"]).text("path")
                if "/_sidecars/" in path:
                    raise UnclearError("a sidecar in a sidecar")
                yield from _checkpoint_actions(files, [f"_delta_log/_sidecars/{unquote(sidecar)}"])
            else:
                yield action


def _parquet_actions(content):
    try:
        table = pq.read_table(io.BytesIO(content), use_threads=False)
        table.validate(full=True)
        rows = table.to_pylist(maps_as_pydicts="strict")
    except UnicodeDecodeError as error:
        raise MalformedError(str(error)) from error
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, MemoryError) as error:
        raise UnclearError(str(error)) from error  # perhaps in a column that is not needed
    return [{key: _without_nulls(value) for key, value in row.items() if value is not None} for row in rows]


def _without_nulls(value):
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    return value


class _Fields:
    """The fields of an action, each of its type."""

    def __init__(self, document):
        if not isinstance(document, dict):
            raise UnclearError("no object")
        self.document = document
        self.clean = {}

    def text(self, name, *, required=True):
        return self._typed(name, str, required=required)

    def number(self, name, limit=INT64, *, required=True):
        value = self._typed(name, int, required=required)
        if value is not None and (isinstance(value, bool) or not -limit <= value < limit):
            raise UnclearError(f"{name}: {value}")
        return value

    def flag(self, name):
        return self._typed(name, bool, required=False)

    def texts(self, name, *, required=False):
        value = self._typed(name, list, required=required)
        if value is not None and not all(isinstance(item, str) for item in value):
            raise UnclearError(name)
        return value

    def mapping(self, name):
        """A map of strings; null values count as absent."""
        value = self._typed(name, dict, required=False) or {}
        if any(not isinstance(item, str) for item in value.values() if item is not None):
            raise UnclearError(name)
        self.clean[name] = {key: item for key, item in value.items() if item is not None}

    def _typed(self, name, kind, *, required):
        value = self.document.get(name)
        if value is None:
            if required:
                raise UnclearError(f"no {name}")
            return None
        if not isinstance(value, kind):
            raise UnclearError(f"{name}: {value!r:.100}")
        self.clean[name] = value
        return value


def _apply(actions, state):
    for action in actions:
        for key, read in SMALL.items():
            if action.get(key) is not None:
                read(_Fields(action[key]), state)
    removes = [_file_action(action["remove"], is_add=False) for action in actions if action.get("remove") is not None]
    adds = [_file_action(action["add"], is_add=True) for action in actions if action.get("add") is not None]
    for remove in removes:
        state.files.pop(file_key(remove), None)
        state.tombstones[file_key(remove)] = remove
    for add in adds:
        state.tombstones.pop(file_key(add), None)
        state.files[file_key(add)] = add


def _protocol(fields, state):
    fields.number("minReaderVersion", INT32)
    fields.number("minWriterVersion", INT32)
    fields.texts("readerFeatures")
    fields.texts("writerFeatures")
    state.protocol = fields.clean


def _metadata(fields, state):
    fields.text("id")
    fields.text("schemaString")
    fields.texts("partitionColumns")
    fields.mapping("configuration")
    fields.number("createdTime", required=False)
    for name in ("name", "description"):
        fields.text(name, required=False)
    state.metadata = fields.clean


def _transaction(fields, state):
    app = fields.text("appId")
    fields.number("version")
    fields.number("lastUpdated", required=False)
    state.transactions[app] = fields.clean


def _domain(fields, state):
    domain = fields.text("domain")
    fields.text("configuration")
    if fields.flag("removed"):
        state.domains.pop(domain, None)
    else:
        state.domains[domain] = fields.clean


SMALL = {"protocol": _protocol, "metaData": _metadata, "txn": _transaction, "domainMetadata": _domain}


def _file_action(document, *, is_add):
    fields = _Fields(document)
    path = fields.text("path")
    if "\n" in path or "\0" in path:
        raise UnclearError("no path")
    fields.mapping("partitionValues")
    fields.number("size", required=False)
    fields.flag("dataChange")
    if is_add:
        fields.number("modificationTime", required=False)
        fields.mapping("tags")
        fields.number("baseRowId", required=False)
        fields.number("defaultRowCommitVersion", required=False)
        fields.text("stats", required=False)
    else:
        fields.number("deletionTimestamp", required=False)
    if document.get("deletionVector") is not None:
        deletion_vector = _Fields(document["deletionVector"])
        deletion_vector.text("storageType")
        deletion_vector.text("pathOrInlineDv")
        deletion_vector.number("offset", INT32, required=False)
        deletion_vector.number("sizeInBytes", INT32)
        deletion_vector.number("cardinality")
        fields.clean["deletionVector"] = deletion_vector.clean
    return fields.clean


def file_key(action):
    """Path and deletion vector, which identify a file action."""
    path = re.sub("^file:/+", "/", action["path"])
    deletion_vector = action.get("deletionVector")
    if not deletion_vector:
        return path, None
    offset = f"@{deletion_vector['offset']}" if deletion_vector.get("offset") is not None else ""
    return path, f"{deletion_vector['storageType']}{deletion_vector['pathOrInlineDv']}{offset}"
