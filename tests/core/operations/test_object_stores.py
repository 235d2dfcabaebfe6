"""A table's whole life in an object store: converted, cloned, measured, restored, listed and swept."""

import time

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from airflow_delta.core.actions import removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.transaction.operation import Operation

DAY = 86_400_000


def numbers(log):
    return sorted(log.refresh().to_arrow().read_all()["n"].to_pylist())


def test_operations_work_on_s3_as_on_local_files(s3):
    uri = f"{s3.uri}/lake/parquet files"
    log = DeltaLog.for_table(uri, s3.options, clock=lambda: time.time_ns() // 1_000_000 + DAY)
    filesystem, root = log.store.data_filesystem()
    for number in range(3):
        pq.write_table(pa.table({"n": [number]}), f"{root}/p=a b/{number}.parquet", filesystem=filesystem)

    converted = DeltaLog.convert(uri, s3.options, partition_schema={"p": "string"}, statistics=False)
    assert (converted.version, converted.files) == (0, 3)
    assert log.recompute_statistics().changed == 3
    assert numbers(log) == [0, 1, 2]
    assert log.refresh().files("n = 1")["path"].to_pylist() == ["p=a%20b/1.parquet"]
    assert DeltaTable(uri.replace(" ", "%20"), storage_options=s3.other_options).file_uris()

    cloned = log.shallow_clone(f"{s3.uri}/clone", storage_options=s3.options)
    clone = DeltaLog.for_table(f"{s3.uri}/clone", s3.options)
    assert (cloned.files, numbers(clone)) == (3, [0, 1, 2])

    transaction = log.start_transaction()
    transaction.read_whole_table()
    gone = log.snapshot().files("n = 0")
    removes = removes_of(gone, deletion_timestamp=1, data_change=True)
    transaction.commit(removes=removes, operation=Operation(name="DELETE"))
    assert numbers(log) == [1, 2]
    assert log.restore(1).num_restored_files == 1
    assert numbers(log) == [0, 1, 2]

    assert log.generate_manifests().files == 3
    manifest = log.store.read("_symlink_format_manifest/p=a b/manifest").decode()
    assert sorted(manifest.splitlines()) == [f"{uri}/p=a b/{number}.parquet" for number in range(3)]

    log.store.write("p=a b/stray.parquet", b"x")
    version = log.refresh().version
    assert log.vacuum(0, enforce_retention=False, dry_run=True).paths.to_pylist() == ["p=a b/stray.parquet"]
    swept = log.vacuum(0, enforce_retention=False)
    assert (swept.files, swept.version, log.refresh().version) == (1, None, version)
    assert log.vacuum(0, enforce_retention=False, lite=True).files == 0
    assert (numbers(log), numbers(clone)) == ([0, 1, 2], [0, 1, 2])
