"""Iceberg's metadata on object stores: written through the table's store, read by Iceberg's own clients of the store."""

import uuid

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import StaticTable

from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import ADD_FILE, NO_REMOVES, removes_of
from airflow_delta.core.data_files import DataFileWriter
from airflow_delta.core.schema import arrow_schema, physical_name, serialize
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.core.table_features.support import ROW_FEATURES
from airflow_delta.core.transaction.operation import Operation
from tests.core.iceberg_tables import UNIFORM, V2

ROWS = [{"id": number, "p": place} for number, place in enumerate(["a b/é", "x", None, "100%"])]


class StoredTable:
    """A table in a store, partitioned by ``p``; rows come in one file each."""

    def __init__(self, uri, options, **arguments):
        self.log = DeltaLog.for_table(uri, storage_options=options, **arguments)
        properties = {V2: "true", **UNIFORM}
        new = NewTable(schema=parse_struct("id long, p string"), partition_columns=["p"], properties=properties)
        self.created = self.log.create(new)

    def rows(self):
        return sorted(self.log.refresh().to_arrow().read_all().to_pylist(), key=lambda row: row["id"])

    def append(self, *rows, path=""):
        """One commit that adds the rows; ``path`` is the URI of a folder elsewhere for their files."""
        schema = self.log.refresh().schema
        filesystem, root = self.log.store.data_filesystem(path or None)
        adds = []
        for row in rows:
            name = f"part {uuid.uuid4()}.parquet"
            with DataFileWriter(filesystem, f"{root}/{name}", schema) as writer:
                for batch in pa.Table.from_pylist([row], arrow_schema(schema)).to_batches():
                    writer.write(batch)
            written, field = writer.close(), schema.find("p")
            adds.append(
                {
                    "path": "/".join([*([path] if path else []), name.replace(" ", "%20")]),
                    "partition_values": [(physical_name(field), serialize(row["p"], field.type))],
                    "size": written.size,
                    "modification_time": 0,
                    "data_change": True,
                    "stats": written.stats,
                }
            )
        return self.commit(adds=pa.Table.from_pylist(adds, ADD_FILE))

    def remove(self, where):
        files = self.log.refresh().files(where)
        return self.commit(removes=removes_of(files, deletion_timestamp=1, data_change=True) if len(files) else NO_REMOVES)

    def commit(self, **actions):
        transaction = self.log.start_transaction(self.log.refresh(), enforces=ROW_FEATURES)
        return transaction.commit(operation=Operation(name="WRITE"), **actions)


def s3_properties(s3, implementation):
    return {
        "py-io-impl": f"pyiceberg.io.{implementation}",
        "s3.endpoint": s3.options["endpoint_url"],
        "s3.access-key-id": "test",
        "s3.secret-access-key": "test",
        "s3.region": "us-east-1",
    }


@pytest.fixture
def by_duckdb(duckdb_iceberg, s3):
    """The rows of a table on S3 as duckdb sees them."""
    endpoint = s3.options["endpoint_url"].removeprefix("http://")
    secret = f"TYPE s3, KEY_ID 'test', SECRET 'test', ENDPOINT '{endpoint}', URL_STYLE 'path', USE_SSL false"
    duckdb_iceberg.sql(f"CREATE OR REPLACE SECRET moto ({secret})")
    yield lambda uri: duckdb_iceberg.sql(f"FROM iceberg_scan('{uri}') ORDER BY id").to_arrow_table().to_pylist()
    duckdb_iceberg.sql("DROP SECRET moto")


@pytest.mark.emulator
@pytest.mark.parametrize("implementation", ["fsspec.FsspecFileIO", "pyarrow.PyArrowFileIO"])
def test_on_s3_icebergs_own_clients_read_what_was_written_through_the_tables_store(s3, by_duckdb, implementation):
    uri = f"{s3.uri}/lake/a table"
    table = StoredTable(uri, s3.options)
    assert table.created.hook_failures == ()
    read = lambda: StaticTable.from_metadata(uri, s3_properties(s3, implementation))  # noqa: E731
    for result in (table.append(*ROWS), table.append({"id": 9, "p": "x"})):
        assert result.hook_failures == ()
    rows = lambda: sorted(read().scan().to_arrow().to_pylist(), key=lambda row: row["id"])  # noqa: E731
    assert rows() == by_duckdb(uri) == table.rows() == [*ROWS, {"id": 9, "p": "x"}]
    assert read().scan(row_filter=EqualTo("p", "a b/é")).to_arrow()["id"].to_pylist() == [0]
    assert table.remove("p = 'x'").after_commit["iceberg"]["removed_files"] == 2
    assert rows() == by_duckdb(uri) == table.rows() == [ROWS[0], ROWS[2], ROWS[3]]
    assert read().properties["delta-version"] == "3"


@pytest.mark.emulator
def test_files_elsewhere_on_s3_are_named_where_the_table_may_read_them(s3):
    table = StoredTable(f"{s3.uri}/lake/t", s3.options)
    table.append(ROWS[0])
    refused = table.append(ROWS[1], path=f"{s3.uri}/elsewhere")
    assert refused.hook_failures[0].startswith("PathOutsideTableError")
    table.log = DeltaLog.for_table(f"{s3.uri}/lake/t", storage_options=s3.options, allowed_prefixes=[f"{s3.uri}/elsewhere"])
    assert table.append(ROWS[2]).hook_failures == ()
    read = StaticTable.from_metadata(f"{s3.uri}/lake/t", s3_properties(s3, "pyarrow.PyArrowFileIO"))
    assert sorted(read.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2] == [row["id"] for row in table.rows()]


@pytest.mark.emulator
def test_what_s3_no_longer_takes_is_told_and_the_next_commit_makes_up_for_it(s3, monkeypatch):
    table = StoredTable(f"{s3.uri}/lake/t", s3.options)
    write = type(table.log.store).write

    def refuse(store, path, content):
        if path.startswith("metadata/"):
            raise PermissionError(13, "Access Denied")
        return write(store, path, content)

    with monkeypatch.context() as patch:
        patch.setattr(type(table.log.store), "write", refuse)
        assert "Access Denied" in table.append(ROWS[0]).hook_failures[0]
    assert table.append(ROWS[1]).after_commit["iceberg"]["added_files"] == 2
    read = StaticTable.from_metadata(f"{s3.uri}/lake/t", s3_properties(s3, "pyarrow.PyArrowFileIO"))
    assert sorted(read.scan().to_arrow()["id"].to_pylist()) == [0, 1]


@pytest.mark.emulator
def test_each_object_store_takes_the_metadata_through_the_tables_own_store(object_store):
    table = StoredTable(f"{object_store.uri}/lake/t", object_store.options)
    results = [table.created, table.append(*ROWS), table.remove("p = 'x'")]
    assert [result.hook_failures for result in results] == [()] * 3
    assert [result.after_commit["iceberg"]["number"] for result in results] == [1, 2, 3]
    assert table.log.store.read("metadata/version-hint.text") == b"3"
