"""Logs written by hand, with content that no engine writes but a reader must handle."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.file_names import checkpoint_path, commit_path
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore

MAP = pa.map_(pa.string(), pa.string())
DELETION_VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
        "maxRowIndex": pa.int64(),
    }
)
CHECKPOINT = pa.schema(
    {
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": MAP,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "tags": MAP,
                "deletionVector": DELETION_VECTOR,
                "stats": pa.string(),
            }
        ),
        "remove": pa.struct(
            {
                "path": pa.string(),
                "deletionTimestamp": pa.int64(),
                "dataChange": pa.bool_(),
                "partitionValues": MAP,
                "deletionVector": DELETION_VECTOR,
            }
        ),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": MAP,
            }
        ),
        "protocol": pa.struct(
            {
                "minReaderVersion": pa.int32(),
                "minWriterVersion": pa.int32(),
                "readerFeatures": pa.list_(pa.string()),
                "writerFeatures": pa.list_(pa.string()),
            }
        ),
        "domainMetadata": pa.struct({"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()}),
    }
)
"""Columns of a checkpoint, as far as the tests need them."""


def schema_string(*columns, **types):
    fields = [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in columns]
    fields += [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in types.items()]
    return json.dumps({"type": "struct", "fields": fields})


def metadata(schema=None, partition_columns=(), **configuration):
    return {
        "metaData": {
            "id": "the-table",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema or schema_string(*partition_columns, id="long"),
            "partitionColumns": list(partition_columns),
            "configuration": configuration,
        }
    }


def protocol(reader=1, writer=2, **features):
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **features}}


def add(path, **fields):
    return {"add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True, **fields}}


def remove(path, **fields):
    return {"remove": {"path": path, "deletionTimestamp": 0, "dataChange": True, **fields}}


def deletion_vector(name, offset=None):
    return {"storageType": "u", "pathOrInlineDv": name, "offset": offset, "sizeInBytes": 1, "cardinality": 1}


class HandmadeLog:
    """A table in memory whose log is written file by file; its clock advances by a second with each file."""

    def __init__(self, *, allowed_prefixes=()):
        self.now = 0
        self.store = InMemoryLogStore("memory://handmade", clock=self._tick, allowed_prefixes=allowed_prefixes)
        self.next_version = 0

    def _tick(self):
        self.now += 1_000
        return self.now

    def commit(self, *actions, version=None):
        """Write the actions (objects, or lines as text) as the next version, or as ``version``."""
        version = self.next_version if version is None else version
        lines = [action if isinstance(action, str) else json.dumps(action) for action in actions]
        self.store.write(commit_path(version), "\n".join(lines).encode())
        self.next_version = version + 1
        return self

    def create(self, *actions, partition_columns=(), **configuration):
        """Write version 0: protocol, metadata, and these actions."""
        return self.commit(protocol(), metadata(None, partition_columns, **configuration), *actions)

    def checkpoint(self, version, *actions, path=None, schema=CHECKPOINT):
        """Write a checkpoint file of these actions."""
        with self.store.open_output(path or checkpoint_path(version)) as stream:
            pq.write_table(pa.Table.from_pylist(list(actions), schema), stream)
        return self

    def remove_commits(self, *versions):
        self.store.delete(map(commit_path, versions))
        return self

    @property
    def log(self):
        return DeltaLog.for_table("memory://handmade", store=self.store)

    def paths(self, version=None):
        return sorted(self.log.snapshot(version).files()["path"].to_pylist())
