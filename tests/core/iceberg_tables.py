"""Tables whose files our core writes in the form that Iceberg readers need."""

import uuid
from itertools import groupby

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import ADD_FILE, NO_REMOVES, removes_of
from airflow_delta.core.data_files import DataFileWriter
from airflow_delta.core.schema import StructType, arrow_schema, physical_name, serialize
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.core.table_features.partition_columns import materialized_columns
from airflow_delta.core.table_features.support import ROW_FEATURES
from airflow_delta.core.transaction.operation import Operation

LOCAL = pafs.LocalFileSystem()
V1, V2, V3 = ("delta.enableIcebergCompatV1", "delta.enableIcebergCompatV2", "delta.enableIcebergCompatV3")
UNIFORM = {"delta.universalFormat.enabledFormats": "iceberg"}


class IcebergTable:
    """A table on disk; rows are added and removed by whole files."""

    def __init__(self, root, columns, *, partition_by=(), **properties):
        self.root = str(root)
        self.log = DeltaLog.for_table(self.root)
        new = NewTable(schema=parse_struct(columns), partition_columns=partition_by, properties=properties)
        self.created = self.log.create(new)

    @property
    def snapshot(self):
        return self.log.refresh()

    def append(self, *rows, **columns):
        """Commit these rows (dictionaries), in one file per partition; returns the result."""
        return self.commit(adds=self.written(rows))

    def replace(self, where, *rows):
        """In one commit, remove the files that may hold rows matching the condition, and add these rows."""
        files = self.snapshot.files(where)
        removes = removes_of(files, deletion_timestamp=self.log.clock(), data_change=True) if len(files) else NO_REMOVES
        return self.commit(adds=self.written(rows), removes=removes)

    def commit(self, **actions):
        transaction = self.log.start_transaction(self.snapshot, enforces=ROW_FEATURES)
        return transaction.commit(operation=Operation(name="WRITE"), **actions)

    def written(self, rows):
        """Write the rows to new files; returns their add actions."""
        snapshot = self.snapshot
        partitions = [snapshot.schema.find(name) for name in snapshot.partition_columns]
        kept = snapshot.schema.without(snapshot.partition_columns)
        more = materialized_columns(snapshot.schema, snapshot.protocol, snapshot.metadata)
        stored = StructType((*kept.fields, *more.fields))
        adds = []
        values_of = lambda row: [(physical_name(field), serialize(row[field.name], field.type)) for field in partitions]  # noqa: E731
        for values, group in groupby(sorted(rows, key=lambda row: str(values_of(row))), key=values_of):
            name = f"part {uuid.uuid4()}.parquet"
            table = pa.Table.from_pylist(list(group), arrow_schema(stored))
            with DataFileWriter(LOCAL, f"{self.root}/{name}", stored) as writer:
                for batch in table.to_batches():
                    writer.write(batch)
            written = writer.close()
            adds.append(
                {
                    "path": name.replace(" ", "%20"),
                    "partition_values": values,
                    "size": written.size,
                    "modification_time": 0,
                    "data_change": True,
                    "stats": written.stats,
                }
            )
        return pa.Table.from_pylist(adds, ADD_FILE)

    def rows(self):
        return sorted(self.snapshot.to_arrow().read_all().to_pylist(), key=str)

    def footers(self):
        """The footer of each live file."""
        paths = self.snapshot.files()["path"].to_pylist()
        return [pq.read_metadata(f"{self.root}/{path.replace('%20', ' ')}") for path in paths]


def field_ids(fields, parent=""):
    """The field id of each field of a file's Arrow schema, by path; None without one."""
    found = {}
    for field in fields:
        path = f"{parent}.{field.name}" if parent else field.name
        number = (field.metadata or {}).get(b"PARQUET:field_id")
        found[path] = None if number is None else int(number)
        kind = field.type
        if pa.types.is_list(kind):
            found |= field_ids([kind.value_field.with_name("element")], path)
        elif pa.types.is_map(kind):
            found |= field_ids([kind.key_field.with_name("key"), kind.item_field.with_name("value")], path)
        elif pa.types.is_struct(kind):
            found |= field_ids(kind, path)
    return found
