"""A hostile table, and the neighbor that it must not reach: an attacker controls ``root/table``, but not ``root/outside``.

``root/outside`` holds a Delta table and a text file; both contain ``CANARY``, so that leaked content is recognized anywhere.
"""

import json
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.core.builders import add, metadata, protocol

CANARY = "canary-7f3a"

FIELDS = (
    {"name": "id", "type": "long", "nullable": True, "metadata": {}},
    {"name": "s", "type": "string", "nullable": True, "metadata": {}},
)
_ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "s": ["a", "b", "c"]})


class LeakError(AssertionError):
    """An answer contains what it must not."""


def make_outside(root):
    """The neighbor: a table with the same columns, and a text file."""
    outside = Path(root) / "outside"
    (outside / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array([666], pa.int64()), "s": [CANARY]}), outside / "secret.parquet")
    size = (outside / "secret.parquet").stat().st_size
    lines = [protocol(), metadata(schema(*FIELDS)), add("secret.parquet", size=size)]
    (outside / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, lines)))
    (outside / "secret.txt").write_text(f"{CANARY}\n")
    return outside


def schema(*fields):
    """The text of a schema with these fields."""
    return json.dumps({"type": "struct", "fields": list(fields)})


def field(name, kind="string", **field_metadata):
    """A nullable field."""
    return {"name": name, "type": kind, "nullable": True, "metadata": field_metadata}


class HostileTable:
    """A table in ``root/table`` whose version 0 is valid; an attack adds to it.

    Attributes:
        root: Directory of the table.
        outside: The neighbor's directory.
        sink: ``host:port`` of a server that must receive no connection.
    """

    def __init__(self, root, sink):
        self.root = Path(root) / "table"
        self.outside = Path(root) / "outside"
        self.sink = sink
        self.log = self.root / "_delta_log"
        self.log.mkdir(parents=True)
        self.version = 0

    def create(self, *, fields=FIELDS, partition_columns=(), reader=1, writer=2, features=None, actions=None, **configuration):
        """Commit version 0 with one file of three rows, or with these actions instead."""
        listed = {} if features is None else {"readerFeatures": features, "writerFeatures": features}
        first = (self.data_file("part-0.parquet"),) if actions is None else actions
        described = metadata(schema(*fields), partition_columns, **configuration)
        return self.commit(protocol(reader, writer, **listed), described, *first)

    def data_file(self, path, rows=_ROWS, **fields):
        """Write a file; returns the action that adds it."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, target)
        return add(path, size=target.stat().st_size, **fields)

    def commit(self, *actions):
        """Commit the next version: objects, or lines as text or bytes."""
        lines = (action if isinstance(action, bytes | str) else json.dumps(action) for action in actions)
        content = b"\n".join(line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line for line in lines)
        (self.log / f"{self.version:020d}.json").write_bytes(content)
        self.version += 1
        return self

    def log_file(self, name, content):
        """Write any other file of the log."""
        target = self.log / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return self

    def checkpoint(self, version, rows, name=None, columns=None):
        """Write a checkpoint of these rows."""
        table = pa.Table.from_pylist(rows, columns) if columns is not None else pa.Table.from_pylist(rows)
        pq.write_table(table, self.log / (name or f"{version:020d}.checkpoint.parquet"))
        return self

    def secret_size(self):
        """Bytes of the neighbor's data file."""
        return (self.outside / "secret.parquet").stat().st_size

    def add_secret(self, path):
        """The action that adds the neighbor's file under this path."""
        return add(path, size=self.secret_size(), stats='{"numRecords":1}')

    def uuid_name(self):
        """A UUID file name, as sidecars have."""
        return str(uuid.UUID(int=7))
