"""Tables without column mapping whose schema still has ids and physical names of another table: nobody obeys these.

delta-io/delta, pull request 3688, describes how they come about.
"""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import ADD_FILE, Protocol, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ConcurrentAppendError
from airflow_delta.core.log.commit_reader import read_commit
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.operations.restore import restored_metadata
from airflow_delta.core.table_features.feature import columns_of
from airflow_delta.core.transaction.operation import Operation
from tests.core.builders import HandmadeLog, add, metadata, protocol

ROWS = [{"p": "x", "id": 1}, {"p": "x", "id": 2}]
WRITE = Operation(name="WRITE")


def left_over(number):
    return {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-old{number}"}


def definition(*partition_columns, **configuration):
    return metadata(schema(), partition_columns, **configuration)


def schema(mark=None):
    mark = {} if mark is None else {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": mark}
    fields = [
        {"name": "p", "type": "string", "nullable": True, "metadata": left_over(1)},
        {"name": "id", "type": "long", "nullable": True, "metadata": {**left_over(2), **mark}},
    ]
    return json.dumps({"type": "struct", "fields": fields})


@pytest.fixture
def table(tmp_path):
    """Partitioned by ``p``, with one file on disk: in it the columns have their own names."""
    path = tmp_path / "table"
    (path / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), path / "a")
    file = add("a", partitionValues={"p": "x"}, size=(path / "a").stat().st_size, stats='{"numRecords":2}')
    lines = (protocol(), definition("p"), file)
    (path / commit_path(0)).write_text("\n".join(map(json.dumps, lines)))
    return DeltaLog.for_table(str(path))


def rows(log):
    return sorted(log.refresh().to_arrow(["p", "id"]).read_all().to_pylist(), key=lambda row: row["id"])


def rows_of_delta_rs(log):
    read = DeltaTable(log.table_uri).to_pyarrow_table().select(["p", "id"])
    return sorted(read.to_pylist(), key=lambda row: row["id"])


def files(*paths):
    row = {"partition_values": [("p", "x")], "size": 1, "modification_time": 1, "data_change": True}
    return pa.Table.from_pylist([{**row, "path": path, "stats": '{"numRecords":1}'} for path in paths], schema=ADD_FILE)


def test_a_restored_version_has_its_partition_values(table):
    snapshot = table.refresh()
    removes = removes_of(snapshot.files(), deletion_timestamp=1, data_change=True)
    table.start_transaction().commit(removes=removes, operation=Operation(name="DELETE"))
    table.restore(0)
    assert rows(table) == rows_of_delta_rs(table) == ROWS


def test_a_clone_has_the_partition_values(table, tmp_path):
    table.shallow_clone(str(tmp_path / "clone"))
    assert rows(DeltaLog.for_table(str(tmp_path / "clone"))) == ROWS


def test_files_that_come_with_metadata_keep_their_partition_values():
    log = HandmadeLog().commit(protocol(), definition("p")).log
    transaction = log.start_transaction()
    transaction.set_metadata(replace(transaction.metadata, configuration={"owner": "me"}))
    transaction.commit(adds=files("a"), operation=WRITE)
    assert read_commit(log.store, 1).adds["partition_values"].to_pylist() == [[("p", "x")]]


@pytest.mark.parametrize("changes", [{}, {"owner": "me"}])
def test_column_mapping_that_is_switched_on_takes_the_names_that_the_files_have(table, changes):
    table.alter().set_properties({"delta.columnMapping.mode": "name", **changes})
    assert rows(table) == rows_of_delta_rs(table) == ROWS


def test_a_mode_that_the_protocol_did_not_support_is_switched_on_with_the_names_that_the_files_have(table):
    table.store.write(
        commit_path(1), json.dumps(definition("p", **{"delta.columnMapping.mode": "name"}), separators=(",", ":")).encode()
    )
    assert rows(table) == ROWS
    table.alter().set_properties({"owner": "me"})
    assert table.refresh().protocol.min_reader_version == 2
    assert rows(table) == ROWS


def test_columns_that_are_added_or_clustered_by_are_called_as_they_are(tmp_path):
    log = HandmadeLog().commit(protocol(), definition()).log
    log.alter().cluster_by("id")
    assert json.loads(log.refresh().domains["delta.clustering"].configuration)["clusteringColumns"] == [["id"]]
    assert [field.metadata for field in log.refresh().schema.fields] == [{}, {}]


def test_a_winner_that_moves_an_identity_mark_and_adds_a_row_looked_for_is_a_conflict():
    handmade = HandmadeLog()
    first = metadata(schema(0), ("p",))
    handmade.commit(protocol(1, 6), first, add("a", partitionValues={"p": "x"}, stats='{"numRecords":1}'))
    transaction = handmade.log.start_transaction(enforces=["identityColumns", "columnMapping"])
    found = transaction.files("p = 'x'")
    handmade.commit(
        {"commitInfo": {"operation": "WRITE", "isBlindAppend": True}},
        metadata(schema(5), ("p",)),
        add("b", partitionValues={"p": "x"}, stats='{"numRecords":1}'),
    )
    removes = removes_of(found, deletion_timestamp=1, data_change=True)
    with pytest.raises(ConcurrentAppendError):
        transaction.commit(adds=files("c"), removes=removes, operation=Operation(name="UPDATE"))


def test_an_identity_column_goes_on_where_only_the_older_version_has_left_overs():
    then, now = (HandmadeLog().commit(protocol(1, 6), metadata(text)) for text in (schema(5), schema(9)))
    latest = now.log.snapshot()
    clean = replace(latest.metadata, schema_string=latest.metadata.schema_string.replace("delta.columnMapping", "x"))
    restored = restored_metadata(then.log.snapshot().metadata, clean)
    assert json.loads(restored.schema_string)["fields"][1]["metadata"] == json.loads(schema(9))["fields"][1]["metadata"]


def test_ids_and_physical_names_count_where_the_protocol_supports_them_and_the_mode_is_on():
    mapped = HandmadeLog().commit(protocol(), definition(**{"delta.columnMapping.mode": "name"})).log.snapshot().metadata
    plain = replace(mapped, configuration={})
    with_mapping, without = (Protocol(min_reader_version=reader, min_writer_version=5) for reader in (2, 1))
    is_mapped = [
        bool(columns_of(found, of).fields[0].metadata)
        for found, of in [(mapped, with_mapping), (mapped, without), (mapped, None), (plain, with_mapping), (plain, None)]
    ]
    assert is_mapped == [True, False, True, False, False]
