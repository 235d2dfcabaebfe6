"""Hostile checkpoints, checksums, ``_last_checkpoint`` files, pins and deletion vectors."""

import base64
import json
import struct

import pyarrow as pa
import pyarrow.parquet as pq

from tests.attacks.hostile_table import FIELDS, schema
from tests.core.builders import CHECKPOINT, add, metadata, protocol, remove

ROWS = 30_000_000
MANY_ROWS = "data: 30,000,000 rows of nulls"


def _checksum(content):
    def attack(table):
        table.create().log_file(f"{0:020d}.crc", content)

    return attack


_SUMS = {
    "tableSizeBytes": 1,
    "numFiles": 1,
    "numMetadata": 1,
    "numProtocol": 1,
    "metadata": metadata(schema(*FIELDS))["metaData"],
    "protocol": protocol()["protocol"],
}


def _hint(content):
    def attack(table):
        table.create().log_file("_last_checkpoint", content)

    return attack


def _pin(name, content):
    def attack(table):
        table.create()
        table.log_file(f"../_airflow_delta/pins/{name}", content)

    return attack


def _checkpoint_bomb(table):
    """A few KB of Parquet that decompress to millions of rows."""
    table.create()
    rows = 20_000_000
    empty = pa.nulls(rows, pa.struct({"appId": pa.string(), "version": pa.int64()}))
    pq.write_table(pa.table({"txn": empty}), table.log / f"{0:020d}.checkpoint.parquet", compression="zstd")


def _wide_text_bomb(table):
    """A text of 100 MB, compressed to a few KB."""
    table.create()
    row = {"metaData": {"id": "x", "schemaString": "x" * 100_000_000, "partitionColumns": [], "configuration": []}}
    columns = pa.schema([CHECKPOINT.field("metaData")])
    pq.write_table(
        pa.Table.from_pylist([row], columns),
        table.log / f"{0:020d}.checkpoint.parquet",
        compression="zstd",
        use_dictionary=False,
    )


def _checkpoint_of(content):
    return lambda table: table.create().log_file(f"{0:020d}.checkpoint.parquet", content)


def _checkpoint_of_other_types(table):
    table.create()
    rows = pa.table({"add": pa.array([{"path": 1, "size": "x"}]), "protocol": pa.array(["p"]), "metaData": pa.array([1])})
    pq.write_table(rows, table.log / f"{0:020d}.checkpoint.parquet")


def _data_file(content):
    def attack(table):
        table.create()
        (table.root / "part-1.parquet").write_bytes(content)
        table.commit(add("part-1.parquet", size=len(content)))

    return attack


def _data_bomb(table):
    """A valid Parquet file of few bytes and very many rows."""
    table.create()
    rows = pa.table({"id": pa.nulls(ROWS, pa.int64()), "s": pa.nulls(ROWS, pa.string())})
    table.commit(table.data_file("part-1.parquet", rows, stats=json.dumps({"numRecords": ROWS})))


def _runs(containers):
    """A bitmap of run containers that each hold 2**16 rows."""
    keys = b"".join(struct.pack("<HH", key, 0xFFFF) for key in range(containers))
    flags = b"\xff" * ((containers + 7) // 8)
    body = struct.pack("<HHH", 1, 0, 0xFFFF) * containers
    header = struct.pack("<I", 12347 | (containers - 1) << 16) + flags + keys
    offsets = (
        b""
        if containers < 4
        else struct.pack(f"<{containers}I", *(len(header) + 4 * containers + 6 * number for number in range(containers)))
    )
    return struct.pack("<IQI", 1681511377, 1, 0) + header + offsets + body


def _inline_runs(containers):
    def attack(table):
        table.create(reader=3, writer=7, features=["deletionVectors"], **{"delta.enableDeletionVectors": "true"})
        content = _runs(containers)
        text = _z85(content + b"\0" * (-len(content) % 4))
        deletion_vector = {
            "storageType": "i",
            "pathOrInlineDv": text,
            "sizeInBytes": len(content),
            "cardinality": containers << 16,
        }
        table.commit(remove("part-0.parquet"), add("part-0.parquet", stats='{"numRecords":3}', deletionVector=deletion_vector))

    return attack


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_BASE85 = base64._b85alphabet.decode()  # Python 3.11 has only the base 85 of RFC 1924: the same code with another alphabet


def _z85(content):
    return base64.b85encode(content).decode().translate(str.maketrans(_BASE85, _Z85))


ATTACKS = {
    "checksum: histogram of texts": _checksum(
        _SUMS | {"histogramOpt": {"sortedBinBoundaries": ["a", "b"], "fileCounts": ["x", None], "totalBytes": ["y", {}]}}
    ),
    "checksum: negative figures": _checksum(_SUMS | {"tableSizeBytes": -5, "numFiles": -7}),
    "checksum: figures that are texts": _checksum(_SUMS | {"tableSizeBytes": "many", "numFiles": {"a": 1}}),
    "checksum: 100,000 deep": _checksum(b'{"histogramOpt":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "checksum: 5,000 digits": _checksum(json.dumps(_SUMS).replace('"numFiles": 1', f'"numFiles": {"9" * 5000}').encode()),
    "checksum: a list": _checksum([1, 2]),
    "checksum: files that are none": _checksum(_SUMS | {"allFiles": [1, {"path": None}], "setTransactions": {"a": 1}}),
    "hint: absurd version": _hint({"version": 10**18, "size": 1}),
    "hint: negative version": _hint({"version": -1, "size": -1}),
    "hint: 10^10 parts": _hint({"version": 0, "size": 1, "parts": 10**10}),
    "hint: version of 5,000 digits": _hint(b'{"version":' + b"9" * 5_000 + b',"size":1}'),
    "hint: version that is a text": _hint({"version": "0", "size": {}, "parts": []}),
    "hint: 100,000 deep": _hint(b"[" * 100_000),
    "hint: a deep schema": _hint({"version": 0, "size": 1, "checkpointSchema": {"type": "struct", "fields": [[[[]]]]}}),
    "pin: junk": _pin("x-a.json", b"\xff\x00junk"),
    "pin: absurd": _pin("y-a.json", {"id": "y", "alias": "a", "version": -(10**30), "created": "x", "expires": 1e999}),
    "pin: 5,000 digits": _pin("z-a.json", b'{"id":"z","alias":"a","version":' + b"9" * 5_000 + b"}"),
    "pin: 100,000 deep": _pin("w-a.json", b"[" * 100_000),
    "checkpoint: 20,000,000 empty rows": _checkpoint_bomb,
    "checkpoint: a text of 100 MB": _wide_text_bomb,
    "checkpoint: junk": _checkpoint_of(b"PAR1" + b"\xff" * 5_000 + b"PAR1"),
    "checkpoint: nothing": _checkpoint_of(b""),
    "checkpoint: other types": _checkpoint_of_other_types,
    "data: junk": _data_file(b"PAR1" + b"\x15\x04" * 5_000 + b"\xff\xff\xff\x7fPAR1"),
    "data: footer beyond the file": _data_file(b"PAR1" + struct.pack("<I", 2**31 - 1) + b"PAR1"),
    MANY_ROWS: _data_bomb,
    "deletion vector: 2,300 runs": _inline_runs(2_300),
    "deletion vector: 65,536 runs": _inline_runs(65_536),
}
