"""Whole tables in object stores: written, read, checkpointed and vacuumed by us, checked against deltalake."""

import json
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.actions import ADD_FILE, Metadata
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CommitConflictError, StorageAccessError, TableExistsError, TableNotFoundError
from airflow_delta.core.transaction.operation import Operation
from tests.core.faulty_proxy import Fault, faulty_proxy
from tests.core.object_stores import ObjectStore

WRITE = Operation(name="WRITE")
FIELDS = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in {"n": "long", "p": "string"}.items()]
SCHEMA = json.dumps({"type": "struct", "fields": FIELDS})
ODD = "p=a%20b ü#?/f 1%.parquet"
ODD_IN_LOG = "p=a%2520b%20%C3%BC%23%3F/f%201%25.parquet"


def create(store: ObjectStore, name="table", **configuration):
    log = DeltaLog.for_table(f"{store.uri}/{name}", store.options)
    metadata = Metadata(id="m", schema_string=SCHEMA, partition_columns=("p",), configuration=configuration)
    log.create_transaction(metadata).commit(operation=Operation(name="CREATE TABLE"))
    return log


def append(log, path, number, partition="a", log_path=None, written_by=None):
    filesystem, root = (written_by or log).store.data_filesystem()
    pq.write_table(pa.table({"n": pa.array([number], pa.int64())}), f"{root}/{path}", filesystem=filesystem)
    row = {
        "path": log_path or path,
        "partition_values": [("p", partition)],
        "size": filesystem.get_file_info(f"{root}/{path}").size,
        "modification_time": int(time.time() * 1000),
        "data_change": True,
        "stats": json.dumps({"numRecords": 1, "minValues": {"n": number}, "maxValues": {"n": number}, "nullCount": {"n": 0}}),
    }
    return log.start_transaction().commit(adds=pa.Table.from_pylist([row], schema=ADD_FILE), operation=WRITE)


def rows(log):
    return sorted(log.refresh().to_arrow(["n"]).read_all()["n"].to_pylist())


def test_a_table_in_an_object_store_is_written_and_read_like_any(object_store):
    log = create(object_store, "lake/a table", **{"delta.checkpointInterval": "2"})
    for number in range(5):
        append(log, f"p=a/f{number}.parquet", number)
    append(log, ODD, 5, log_path=ODD_IN_LOG)

    fresh = DeltaLog.for_table(f"{object_store.uri}/lake/a table/", object_store.options)
    assert rows(fresh) == rows(log) == [0, 1, 2, 3, 4, 5]
    assert fresh.refresh().version == 6
    assert rows(log) == rows(DeltaLog.for_table(f"{object_store.uri}/lake/a table", object_store.options))
    assert sorted(fresh.snapshot(3).to_arrow(["n"], where="n >= 1").read_all()["n"].to_pylist()) == [1, 2]
    assert [entry.version for entry in fresh.history()] == [6, 5, 4, 3, 2, 1, 0]
    assert fresh.store.exists("_delta_log/00000000000000000006.checkpoint.parquet")
    assert fresh.store.exists("_delta_log/_last_checkpoint")


def test_a_vacuum_deletes_there_what_no_version_needs(object_store):
    log = create(object_store)
    append(log, "p=a/kept.parquet", 1)
    for number in range(5):
        log.store.write(f"p=a/stray {number}%.parquet", b"x")
    result = log.vacuum(retention_hours=0, enforce_retention=False)
    assert result.files == 5
    assert [file.path for file in log.store.list_all() if not file.path.startswith("_delta_log")] == ["p=a/kept.parquet"]


@pytest.mark.parametrize("place", ["s3", "azure"])
def test_deltalake_reads_what_we_wrote_and_we_what_it_wrote(request, place):
    store = request.getfixturevalue(place)
    log = create(store)
    append(log, "p=a/f.parquet", 1)
    append(log, ODD, 2, partition="a%20b ü#?", log_path=ODD_IN_LOG)
    theirs = DeltaTable(log.table_uri, storage_options=store.other_options)
    assert sorted(theirs.to_pyarrow_table()["n"].to_pylist()) == [1, 2]

    more = pa.table({"n": pa.array([3, 4], pa.int64()), "p": ["b c", None]})
    write_deltalake(log.table_uri, more, mode="append", partition_by=["p"], storage_options=store.other_options)
    theirs.update_incremental()
    theirs.create_checkpoint()
    assert rows(log) == [1, 2, 3, 4]
    assert rows(DeltaLog.for_table(log.table_uri, store.options)) == [1, 2, 3, 4]
    assert log.refresh().to_arrow(["n"], where="p = 'b c'").read_all()["n"].to_pylist() == [3]


def test_two_creations_of_one_table_leave_one(object_store):
    first = create(object_store)
    with pytest.raises(TableExistsError):
        create(object_store)
    assert first.refresh().version == 0


def test_there_is_no_table_where_nothing_is(object_store):
    log = DeltaLog.for_table(f"{object_store.uri}/nothing", object_store.options)
    assert not log.exists()
    with pytest.raises(TableNotFoundError):
        log.refresh()
    assert list(log.store.list_all()) == []


def test_a_bucket_that_is_missing_is_no_missing_table(object_store):
    uri = f"{object_store.uri}-missing/table"
    log = DeltaLog.for_table(uri, object_store.options)
    with pytest.raises(StorageAccessError) as caught:
        log.refresh()
    assert caught.value.uri == uri
    with pytest.raises(StorageAccessError):
        log.store.write_if_absent("_delta_log/x", b"x")
    with pytest.raises(StorageAccessError):
        log.store.write("_delta_log/x", b"x")


def test_a_commit_whose_answer_is_lost_on_the_way_is_found_and_made_once(s3, moto_server):
    with faulty_proxy(moto_server) as proxy:
        log = create(ObjectStore(uri=s3.uri, options=s3.options | {"endpoint_url": proxy.url}))
        direct = DeltaLog.for_table(log.table_uri, s3.options)  # for data files, which Arrow sends in chunks
        for number in range(3):
            proxy.faults = [Fault("PUT", f"{number + 1:020d}.json", arrives=True)]
            result = append(log, f"p=a/f{number}.parquet", number, written_by=direct)
            assert (result.version, result.committed, result.attempts, result.conflicts) == (number + 1, True, 1, ())
            assert proxy.count("PUT", f"{number + 1:020d}.json") == 2
        assert rows(direct) == [0, 1, 2]


def test_an_error_of_the_commit_says_who_won_also_in_an_object_store(object_store):
    log = create(object_store)
    append(log, "p=a/f.parquet", 1)
    late = log.start_transaction()
    late.files("p = 'a'")
    append(log, "p=a/g.parquet", 2)
    with pytest.raises(CommitConflictError) as caught:
        late.commit(adds=log.refresh().files("n = 1"), operation=WRITE)
    assert caught.value.winning_version == 2
