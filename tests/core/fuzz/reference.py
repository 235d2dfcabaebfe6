"""A slow, plain replay of a log, in Python objects only: what the core must answer, or rightly refuses.

It has three outcomes. A state (or rows): the core must give the same, or raise a ``DeltaError``. ``MalformedError``: the core
must raise a ``DeltaError``. ``UnclearError``: the bytes break the protocol in a way that may be forgiven (a number where a text
belongs in an action that other engines read leniently, a key twice in one object), so any answer or ``DeltaError`` will do.
"""

import io
import json
import re
import struct
import zlib
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

Z85 = {
    character: digit
    for digit, character in enumerate("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#")
}
COMMIT = re.compile(r"_delta_log/(\d{20})\.json")
CLASSIC = re.compile(r"_delta_log/(\d{20})\.checkpoint\.parquet")
PART = re.compile(r"_delta_log/(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
V2 = re.compile(r"_delta_log/(\d{20})\.checkpoint\.[^.]+\.(json|parquet)")
INT32, INT64 = 1 << 31, 1 << 63
DEEP = 900  # levels of nesting that plain Python still parses


class MalformedError(Exception):
    """The core must refuse this."""


class UnclearError(Exception):
    """The core may refuse this or make something of it."""


@dataclass
class State:
    """What a log says at one version; actions as their JSON objects, nulls left out."""

    version: int
    protocol: dict = None
    metadata: dict = None
    transactions: dict = field(default_factory=dict)
    domains: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)
    tombstones: dict = field(default_factory=dict)


# -- which files


def versions(files):
    """Versions that the log has any usable file of; commits alone in a set of their own."""
    commits = {int(match[1]) for path in files if (match := COMMIT.fullmatch(path))}
    return commits | {version for version, _ in _checkpoints(files)}, commits


def _checkpoints(files):
    """(version, paths) of every complete one."""
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


def starts(files, version):
    """The checkpoints (or None) from which ``version`` can be rebuilt, the best one first."""
    _, commits = versions(files)
    complete = [(at, paths) for at, paths in reversed(_checkpoints(files)) if at <= version]
    for at, paths in complete:
        if all(each in commits for each in range(at + 1, version + 1)):
            yield at, paths
    if version < len(commits) and all(each in commits for each in range(version + 1)):
        yield None


# -- replay


def replayed(files, version, start):
    """The state at ``version``, from the checkpoint ``start`` (or from the first commit)."""
    state = State(version)
    first = 0
    if start:
        first = start[0] + 1
        named = Counter()
        for action in _checkpoint_actions(files, start[1]):
            _apply([action], state)
            named.update(key for key in ("add", "remove") if action.get(key) is not None)
        if named != Counter(add=len(state.files), remove=len(state.tombstones)):
            raise UnclearError("a checkpoint that names a file twice")
    for each in range(first, version + 1):
        _apply(commit_actions(files[f"_delta_log/{each:020}.json"]), state)
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
        raise UnclearError(str(error)) from error  # perhaps in a column that nobody needs
    return [{key: _without_nulls(value) for key, value in row.items() if value is not None} for row in rows]


def _without_nulls(value):
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
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
        if value is not None and not all(isinstance(each, str) for each in value):
            raise UnclearError(name)
        return value

    def mapping(self, name):
        """String by string; a null value is no value."""
        value = self._typed(name, dict, required=False) or {}
        if any(not isinstance(each, str) for each in value.values() if each is not None):
            raise UnclearError(name)
        self.clean[name] = {key: each for key, each in value.items() if each is not None}

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
    adds, removes = [], []
    for action in actions:
        if action.get("protocol") is not None:
            fields = _Fields(action["protocol"])
            fields.number("minReaderVersion", INT32)
            fields.number("minWriterVersion", INT32)
            fields.texts("readerFeatures")
            fields.texts("writerFeatures")
            state.protocol = fields.clean
        if action.get("metaData") is not None:
            fields = _Fields(action["metaData"])
            fields.text("id")
            fields.text("schemaString")
            fields.texts("partitionColumns")
            fields.mapping("configuration")
            fields.number("createdTime", required=False)
            for name in ("name", "description"):
                fields.text(name, required=False)
            state.metadata = fields.clean
        if action.get("txn") is not None:
            fields = _Fields(action["txn"])
            app = fields.text("appId")
            fields.number("version")
            fields.number("lastUpdated", required=False)
            state.transactions[app] = fields.clean
        if action.get("domainMetadata") is not None:
            fields = _Fields(action["domainMetadata"])
            domain = fields.text("domain")
            fields.text("configuration")
            if fields.flag("removed"):
                state.domains.pop(domain, None)
            else:
                state.domains[domain] = fields.clean
        for key, found in (("add", adds), ("remove", removes)):
            if action.get(key) is not None:
                found.append(_file_action(action[key], is_add=key == "add"))
    for each in removes:
        state.files.pop(file_key(each), None)
        state.tombstones[file_key(each)] = each
    for each in adds:
        state.tombstones.pop(file_key(each), None)
        state.files[file_key(each)] = each


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
        vector = _Fields(document["deletionVector"])
        vector.text("storageType")
        vector.text("pathOrInlineDv")
        vector.number("offset", INT32, required=False)
        vector.number("sizeInBytes", INT32)
        vector.number("cardinality")
        fields.clean["deletionVector"] = vector.clean
    return fields.clean


def file_key(action):
    """Path and deletion vector, by which file actions are told apart."""
    path = re.sub("^file:/+", "/", action["path"])
    vector = action.get("deletionVector")
    if not vector:
        return path, None
    offset = f"@{vector['offset']}" if vector.get("offset") is not None else ""
    return path, f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"


# -- rows


def deleted_positions(files, vector):
    """The positions that a deletion vector names, decoded byte by byte."""
    text = vector["pathOrInlineDv"]
    size = vector["sizeInBytes"]
    try:
        if vector["storageType"] == "i":
            content = _unz85(text)[:size]
        else:
            content = _content_in_file(files, vector, text, size)
        positions = list(_bitmap(content))
    except (KeyError, ValueError, struct.error, IndexError) as error:
        raise MalformedError(f"deletion vector: {error!r}") from error
    if len(positions) != vector["cardinality"]:
        raise MalformedError("cardinality")
    return set(positions)


def _content_in_file(files, vector, text, size):
    offset = vector.get("offset") or 0
    if vector["storageType"] != "u" or offset < 0 or size < 0:
        raise UnclearError("another kind of vector")
    name = _unz85(text[-20:])
    path = f"{text[:-20]}/deletion_vector_{name.hex()[:8]}-".lstrip("/")
    path += "-".join((name.hex()[8:12], name.hex()[12:16], name.hex()[16:20], name.hex()[20:])) + ".bin"
    framed = files[unquote(path)][offset:]
    if struct.unpack(">i", framed[:4])[0] != size:
        raise ValueError("size")
    content = framed[4 : 4 + size]
    if struct.unpack(">I", framed[4 + size : 8 + size])[0] != zlib.crc32(content):
        raise ValueError("checksum")
    return content


def _unz85(text):
    content = b""
    for start in range(0, len(text), 5):
        word = 0
        for character in text[start : start + 5]:
            word = word * 85 + Z85[character]
        content += struct.pack(">I", word)
    if len(text) % 5:
        raise ValueError("length")
    return content


def _bitmap(content):
    magic, count = struct.unpack_from("<iq", content)
    if magic != 1681511377 or count < 0:
        raise ValueError("magic")
    at = 12
    for _ in range(count):
        upper, cookie = struct.unpack_from("<II", content, at)
        at += 8
        is_run = [False]
        if cookie & 0xFFFF == 12347:
            containers = (cookie >> 16) + 1
            flags = content[at : at + (containers + 7) // 8]
            is_run = [bool(flags[each // 8] >> each % 8 & 1) for each in range(containers)]
            at += len(flags)
        elif cookie == 12346:
            (containers,) = struct.unpack_from("<I", content, at)
            at += 4
            if containers > 1 << 16:
                raise ValueError("too many containers")
            is_run = [False] * containers
        else:
            raise ValueError("cookie")
        headers = [struct.unpack_from("<HH", content, at + 4 * each) for each in range(containers)]
        at += 4 * containers
        if cookie == 12346 or containers >= 4:
            at += 4 * containers
        for (key, less_one), runs in zip(headers, is_run, strict=True):
            base = (upper << 32) + (key << 16)
            if runs:
                (number,) = struct.unpack_from("<H", content, at)
                for each in range(number):
                    first, more = struct.unpack_from("<HH", content, at + 2 + 4 * each)
                    yield from range(base + first, base + first + more + 1)
                at += 2 + 4 * number
            elif less_one < 4096:
                for each in range(less_one + 1):
                    yield base + struct.unpack_from("<H", content, at + 2 * each)[0]
                at += 2 * (less_one + 1)
            else:
                bits = content[at : at + 8192]
                yield from (base + bit for bit in range(1 << 16) if bits[bit // 8] >> bit % 8 & 1)
                at += 8192
