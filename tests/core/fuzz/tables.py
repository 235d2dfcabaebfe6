"""Small tables in every log layout, as bytes by path, for the fuzz to mutate."""

import io
import json
import struct
import uuid
import zlib
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_delta.core.log.compaction_mark import KEEPS_ALL_TOMBSTONES
from tests.core.fuzz.reference import replayed

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
ROWS = 4  # per data file
STORED = pa.schema(
    {
        "id": pa.int64(),
        "name": pa.string(),
        "price": pa.decimal128(10, 2),
        "at": pa.timestamp("us", "UTC"),
        "words": pa.list_(pa.string()),
        "inner": pa.struct({"a": pa.int32(), "b": pa.string()}),
    }
)
FIELDS = {
    "id": "long",
    "name": "string",
    "price": "decimal(10,2)",
    "at": "timestamp",
    "words": {"type": "array", "elementType": "string", "containsNull": True},
    "inner": {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in (("a", "integer"), ("b", "string"))
        ],
    },
    "p": "string",
    "d": "date",
}
SCHEMA = json.dumps(
    {"type": "struct", "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in FIELDS.items()]}
)
PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["deletionVectors", "domainMetadata", "inCommitTimestamp", "rowTracking"],
}
WITH_V2 = {key: [*value, "v2Checkpoint"] if isinstance(value, list) else value for key, value in PROTOCOL.items()}

MAP = pa.map_(pa.string(), pa.string())
DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
BOUNDS = pa.struct([("id", pa.int64()), ("name", pa.string())])
PARSED = pa.struct([("numRecords", pa.int64()), ("minValues", BOUNDS), ("maxValues", BOUNDS)])
SIDECAR = pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", MAP)])
ADD = [
    ("path", pa.string()),
    ("partitionValues", MAP),
    ("size", pa.int64()),
    ("modificationTime", pa.int64()),
    ("dataChange", pa.bool_()),
    ("tags", MAP),
    ("deletionVector", DELETION_VECTOR),
    ("baseRowId", pa.int64()),
    ("defaultRowCommitVersion", pa.int64()),
]
REMOVE = [
    ("path", pa.string()),
    ("deletionTimestamp", pa.int64()),
    ("dataChange", pa.bool_()),
    ("partitionValues", MAP),
    ("size", pa.int64()),
    ("deletionVector", DELETION_VECTOR),
]
SMALL = {
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", MAP),
            ("createdTime", pa.int64()),
        ]
    ),
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", pa.list_(pa.string())),
            ("writerFeatures", pa.list_(pa.string())),
        ]
    ),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
}
MANIFEST = {
    **SMALL,
    "sidecar": SIDECAR,
    "checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", MAP)]),
}


def checkpoint_schema(*, stats="text"):
    """Columns of a checkpoint with file actions; statistics as ``text``, as ``struct``, or absent."""
    more = {"text": [("stats", pa.string())], "struct": [("stats_parsed", PARSED)]}[stats]
    return pa.schema({**SMALL, "add": pa.struct(ADD + more), "remove": pa.struct(REMOVE)})


@dataclass
class Table:
    """The files of a table.

    Attributes:
        files: Content by path below the root.
        is_whole: Whether every commit exists, so that no checkpoint is needed.
    """

    name: str
    files: dict = field(default_factory=dict)

    def log_files(self, *suffixes):
        found = sorted(path for path in self.files if path.startswith("_delta_log/"))
        return [path for path in found if path.endswith(suffixes)] if suffixes else found


def rows_of(number):
    """The rows of a data file, without partition values."""
    return [
        {
            "id": number * 10 + row,
            "name": None if row == 3 else f"név {number}-{row}",
            "price": f"{number}.{row}0",
            "at": 1_600_000_000_000_000 + number * 1_000_000 + row,
            "words": None if row == 1 else [f"w{row}", None][:row],
            "inner": None if row == 2 else {"a": row, "b": f"b{number}"},
        }
        for row in range(ROWS)
    ]


def data_file(number):
    table = pa.Table.from_pylist(rows_of(number)).cast(STORED)
    stream = io.BytesIO()
    pq.write_table(table, stream, compression="snappy" if number % 2 else "none")
    return stream.getvalue()


# -- deletion vectors


def z85(content):
    words = struct.unpack(f">{len(content) // 4}I", content)
    return "".join(Z85[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))


def bitmap(*positions):
    """A Roaring bitmap of 64 bits in the portable format, array containers only."""
    keys = sorted({position >> 16 for position in positions})
    groups = [sorted(position & 0xFFFF for position in positions if position >> 16 == key) for key in keys]
    head = struct.pack("<II", 12346, len(keys))
    head += b"".join(struct.pack("<HH", key, len(rows) - 1) for key, rows in zip(keys, groups, strict=True))
    bodies = b"".join(struct.pack(f"<{len(rows)}H", *rows) for rows in groups)
    return struct.pack("<iqI", 1681511377, 1, 0) + head + bytes(4 * len(keys)) + bodies


def framed(content):
    return struct.pack(">i", len(content)) + content + struct.pack(">I", zlib.crc32(content))


def deletion_vector(storage, text, size, rows, offset=None):
    described = {"storageType": storage, "pathOrInlineDv": text, "sizeInBytes": size, "cardinality": rows}
    return described if offset is None else {**described, "offset": offset}


# -- commits


def add(number, p="a", **fields):
    body = rows_of(number)
    stats = {
        "numRecords": ROWS,
        "minValues": {"id": body[0]["id"], "name": body[0]["name"]},
        "maxValues": {"id": body[-1]["id"], "name": body[-2]["name"]},
        "nullCount": {"id": 0, "name": 1},
    }
    return {
        "add": {
            "path": f"p={p}/part-{number}%20x.parquet",
            "partitionValues": {"p": p, "d": "2020-01-02"},
            "size": 1000 + number,
            "modificationTime": 1_600_000_000_000 + number,
            "dataChange": True,
            "stats": json.dumps(stats, ensure_ascii=False),
            "tags": {"k": str(number)},
            "baseRowId": number * ROWS,
            "defaultRowCommitVersion": number,
            **fields,
        }
    }


def remove(number, p="a", **fields):
    return {
        "remove": {
            "path": f"p={p}/part-{number}%20x.parquet",
            "deletionTimestamp": 1_600_000_100_000 + number,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": {"p": p, "d": "2020-01-02"},
            "size": 1000 + number,
            **fields,
        }
    }


def info(version, operation="WRITE"):
    return {
        "commitInfo": {
            "timestamp": 1_600_000_000_000 + version * 1000,
            "inCommitTimestamp": 1_600_000_000_000 + version * 1000,
            "operation": operation,
            "operationParameters": {"mode": "Append"},
            "operationMetrics": {"numFiles": "1"},
            "isBlindAppend": True,
            "txnId": str(uuid.UUID(int=version)),
        }
    }


METADATA = {
    "metaData": {
        "id": "6e7a",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": ["p", "d"],
        "configuration": {
            "delta.enableDeletionVectors": "true",
            "delta.enableInCommitTimestamps": "true",
            "delta.enableRowTracking": "true",
            "user.key": "ü",
        },
        "createdTime": 1_600_000_000_000,
    }
}
BIN = uuid.UUID(int=0xDE1E7E)
IN_FILE, LATER_IN_FILE, INLINE = bitmap(1), bitmap(0, 2), bitmap(3)
BIN_PATH = f"deletion_vector_{BIN}.bin"
BIN_CONTENT = b"\x01" + framed(IN_FILE) + framed(LATER_IN_FILE)
DELETION_VECTORS = {
    "first": deletion_vector("u", z85(BIN.bytes), len(IN_FILE), 1, 1),
    "second": deletion_vector("u", z85(BIN.bytes), len(LATER_IN_FILE), 2, 1 + len(IN_FILE) + 8),
    "inline": deletion_vector("i", z85(INLINE + bytes(-len(INLINE) % 4)), len(INLINE), 1),
}


def commits():
    """Eight commits with every kind of action."""
    return [
        [info(0, "CREATE TABLE"), {"protocol": PROTOCOL}, METADATA, add(0)],
        [info(1), add(1), add(2, "b"), {"txn": {"appId": "app", "version": 3, "lastUpdated": 5}}],
        [info(2, "DELETE"), remove(0), add(3, "b", stats=None)],
        [info(3), {"domainMetadata": {"domain": "mine", "configuration": "{}", "removed": False}}, add(4, 'ö \\ "')],
        [info(4, "DELETE"), remove(1), add(1, deletionVector=DELETION_VECTORS["first"])],
        [info(5), add(5), {"txn": {"appId": "app", "version": 4}}, {"cdc": {"path": "c", "partitionValues": {}, "size": 1}}],
        [info(6, "DELETE"), remove(2, "b"), add(2, "b", deletionVector=DELETION_VECTORS["second"])],
        [info(7, "DELETE"), remove(5), add(5, deletionVector=DELETION_VECTORS["inline"]), add(6, "b")],
    ]


def commit_path(version):
    return f"_delta_log/{version:020}.json"


def lines(actions):
    return b"".join(json.dumps(action, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for action in actions)


def plain():
    """All commits, no checkpoint."""
    files = {commit_path(version): lines(actions) for version, actions in enumerate(commits())}
    for actions in commits():
        for action in actions:
            if "add" in action:
                number = int(action["add"]["path"].split("part-")[1].split("%")[0])
                files[action["add"]["path"].replace("%20", " ")] = data_file(number)
    return Table("plain", files | {BIN_PATH: BIN_CONTENT})


# -- checkpoints


def parquet(rows, schema):
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), stream, row_group_size=5)
    return stream.getvalue()


def _with_maps_as_items(value):
    """Maps with arbitrary keys as lists of items, as Arrow expects them."""
    if isinstance(value, list):
        return [_with_maps_as_items(item) for item in value]
    if not isinstance(value, dict):
        return value
    free = ("partitionValues", "tags", "configuration", "options")
    return {
        key: list(child.items()) if key in free and isinstance(child, dict) else _with_maps_as_items(child)
        for key, child in value.items()
    }


def actions_at(version):
    """The actions of a checkpoint: non-file actions, and file actions."""
    state = replayed(plain().files, version)
    small = [{"protocol": state.protocol}, {"metaData": state.metadata}]
    small += [{"txn": transaction} for transaction in state.transactions.values()]
    small += [{"domainMetadata": domain} for domain in state.domains.values()]
    files = [{"add": {**file, "dataChange": False}} for file in state.files.values()]
    files += [{"remove": {**tombstone, "dataChange": False}} for tombstone in state.tombstones.values()]
    return _with_maps_as_items(small), _with_maps_as_items(files)


def parsed_statistics(action):
    """The action with struct statistics only."""
    fields = action.get("add")
    if not fields:
        return action
    fields = dict(fields)
    stats = fields.pop("stats", None)
    return {"add": {**fields, "stats_parsed": json.loads(stats) if stats else None}}


def _checkpointed(name, version, files, *, keep_commits, hint=None):
    kept = {path: content for path, content in plain().files.items() if keep_commits or path not in _before(version)}
    document = {"version": version, "size": 12, **(hint or {})}
    return Table(name, kept | files | {"_delta_log/_last_checkpoint": json.dumps(document).encode()})


def _before(version):
    return {commit_path(commit_version) for commit_version in range(version)}


def classic(name="classic", *, version=4, keep_commits=False, stats="text"):
    small, files = actions_at(version)
    files = [parsed_statistics(file) for file in files] if stats == "struct" else files
    path = f"_delta_log/{version:020}.checkpoint.parquet"
    content = {path: parquet(small + files, checkpoint_schema(stats=stats))}
    return _checkpointed(name, version, content, keep_commits=keep_commits)


def multi_part():
    small, files = actions_at(5)
    parts = [small + files[:2], files[2:5], files[5:]]
    content = {
        f"_delta_log/{5:020}.checkpoint.{number:010}.{len(parts):010}.parquet": parquet(part, checkpoint_schema())
        for number, part in enumerate(parts, 1)
    }
    return _checkpointed("multi_part", 5, content, keep_commits=False, hint={"parts": len(parts)})


def two_checkpoints():
    """A newer checkpoint, and an older one to fall back on."""
    newer, older = classic(version=6), classic(version=3)
    return Table("two_checkpoints", older.files | newer.files)


def v2(*, kind, with_sidecars=True):
    small, files = actions_at(5)
    halves = [files[:3], files[3:]] if with_sidecars else []
    sidecars = {f"{uuid.UUID(int=100 + number)}.parquet": half for number, half in enumerate(halves)}
    content = {f"_delta_log/_sidecars/{name}": parquet(half, checkpoint_schema()) for name, half in sidecars.items()}
    actions = [{"checkpointMetadata": {"version": 5, "tags": {}}}, {"protocol": WITH_V2}, *small[1:]]
    for name in sidecars:
        size = len(content[f"_delta_log/_sidecars/{name}"])
        actions.append({"sidecar": {"path": name, "sizeInBytes": size, "modificationTime": 1}})
    actions += [] if with_sidecars else files
    manifest = f"_delta_log/{5:020}.checkpoint.{uuid.UUID(int=7)}.{kind}"
    if kind == "json":
        content[manifest] = lines(map(_with_maps_as_objects, actions))
    else:
        schema = MANIFEST if with_sidecars else {**MANIFEST, **dict(zip(*_names_and_types(checkpoint_schema()), strict=True))}
        content[manifest] = parquet(_with_maps_as_items(actions), pa.schema(schema))
    name = f"v2_{kind}{'' if with_sidecars else '_inline'}"
    return _checkpointed(name, 5, content, keep_commits=False)


def _names_and_types(schema):
    return schema.names, schema.types


def _with_maps_as_objects(value):
    free = ("partitionValues", "tags", "configuration", "options")
    if isinstance(value, list):
        return [_with_maps_as_objects(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: dict(child) if key in free and isinstance(child, list) else _with_maps_as_objects(child)
        for key, child in value.items()
    }


def compacted():
    """A log compaction file of commits 2 to 5, and checksums of two versions."""
    state = replayed(plain().files, 5)
    known = replayed(plain().files, 1)
    actions = [{"txn": transaction} for transaction in state.transactions.values()] + [
        {"domainMetadata": domain} for domain in state.domains.values()
    ]
    actions += [{"add": file} for key, file in state.files.items() if known.files.get(key) != file]
    actions += [{"remove": tombstone} for tombstone in state.tombstones.values()]
    files = plain().files | {f"_delta_log/{2:020}.{5:020}.compacted.json": KEEPS_ALL_TOMBSTONES + lines(actions)}
    for version in (5, 7):
        at = replayed(files, version)
        checksum = {
            "txnId": str(uuid.UUID(int=version)),
            "tableSizeBytes": sum(file["size"] for file in at.files.values()),
            "numFiles": len(at.files),
            "numMetadata": 1,
            "numProtocol": 1,
            "inCommitTimestampOpt": 1_600_000_000_000 + version * 1000,
            "setTransactions": list(at.transactions.values()),
            "domainMetadata": list(at.domains.values()),
            "metadata": at.metadata,
            "protocol": at.protocol,
        }
        files[f"_delta_log/{version:020}.crc"] = json.dumps(checksum).encode()
    return Table("compacted", files)


def make_tables():
    """Every table by name."""
    tables = [
        plain(),
        classic(),
        classic("classic_and_commits", version=6, keep_commits=True),
        classic("struct_stats", stats="struct"),
        multi_part(),
        two_checkpoints(),
        v2(kind="json"),
        v2(kind="parquet"),
        v2(kind="json", with_sidecars=False),
        v2(kind="parquet", with_sidecars=False),
        compacted(),
    ]
    return {table.name: table for table in tables}
