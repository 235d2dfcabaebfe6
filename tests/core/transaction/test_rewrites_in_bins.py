"""Rewrites in bins: a winner costs those whose inputs it removed, and only those."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from airflow_delta.core.actions import DomainMetadata, Metadata, Origin, Protocol, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidCommitError, MetadataChangedError
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.rewrite_bins import FileRewriteBin

WRITE = Operation(name="WRITE")
OPTIMIZE = Operation(name="OPTIMIZE", parameters={"zOrderBy": []}, changes_data=False)


@pytest.fixture
def filled(table, added):
    """Two files in each of two days."""
    names = [(f"{day}{number}", day, (number, number)) for day in "12" for number in range(2)]
    table.start_transaction().commit(adds=added(*names), operation=WRITE)
    return table


@pytest.fixture
def bins(added):
    """What a transaction makes of each day's files: one bin for each day."""

    def make(transaction, *, data_change=False):
        return [
            FileRewriteBin(
                removes=removes_of(transaction.snapshot.files(f"day = '{day}'"), deletion_timestamp=5, data_change=data_change),
                adds=added((f"big{day}", day, (0, 1)), data_change=data_change),
            )
            for day in "12"
        ]

    return make


def metrics(adds, removes):
    return {"numAddedFiles": len(adds), "numRemovedFiles": len(removes)}


def paths(log):
    return sorted(log.refresh().files()["path"].to_pylist())


def delete(log, where, **keywords):
    transaction = log.start_transaction()
    removes = removes_of(transaction.files(where), deletion_timestamp=5, data_change=True)
    return transaction.commit(removes=removes, operation=Operation(name="DELETE"), **keywords)


def test_without_a_winner_all_bins_are_committed_at_snapshot_isolation(filled, bins):
    transaction = filled.start_transaction()
    result = transaction.commit_rewrites(bins(transaction), operation=OPTIMIZE, metrics=metrics)
    assert (result.version, result.committed, result.lost_bins) == (2, True, ())
    assert result.commit_info.isolation_level == "SnapshotIsolation"
    assert result.commit_info.operation_metrics == {"numAddedFiles": "2", "numRemovedFiles": "4"}
    assert paths(filled) == ["big1", "big2"]


def test_a_bin_whose_input_went_is_left_out_where_delta_spark_loses_the_commit_and_begins_anew(filled, bins, added):
    transaction = filled.start_transaction()
    rewrites = bins(transaction)
    delete(filled, "day = '1' AND key = 1")
    filled.start_transaction().commit(adds=added(("new", "2", (7, 7))), operation=WRITE)

    result = transaction.commit_rewrites(rewrites, operation=OPTIMIZE, metrics=metrics)

    assert (result.version, result.committed, result.lost_bins) == (4, True, (0,))
    assert result.commit_info.operation_metrics == {"numAddedFiles": "1", "numRemovedFiles": "2"}
    logged = json.loads(filled.store.read(commit_path(4)).split(b"\n")[0])["commitInfo"]
    assert logged["operationMetrics"] == {"numAddedFiles": "1", "numRemovedFiles": "2"}
    assert paths(filled) == ["10", "big2", "new"]


def test_nothing_is_committed_when_every_bin_is_lost(filled, bins):
    transaction = filled.start_transaction()
    rewrites = bins(transaction)
    delete(filled, "key = 1")
    result = transaction.commit_rewrites(rewrites, operation=OPTIMIZE, metrics=metrics)
    assert (result.committed, result.lost_bins, result.commit_info) == (False, (0, 1), None)
    assert filled.refresh().version == 2
    assert paths(filled) == ["10", "20"]


def test_a_deletion_vector_on_an_input_loses_its_bin(filled, bins):
    transaction = filled.start_transaction()
    rewrites = bins(transaction)
    theirs = filled.start_transaction()
    file = theirs.files("day = '2' AND key = 0")
    deletion_vector = {"storage_type": "u", "path_or_inline_dv": "x" * 20, "offset": 1, "size_in_bytes": 1, "cardinality": 1}
    marked = file.set_column(7, file.schema.field(7), pa.array([deletion_vector], file.schema.field(7).type))
    marked = marked.set_column(4, file.schema.field(4), [[True]])
    theirs.set_protocol(
        Protocol(min_reader_version=3, min_writer_version=7, reader_features=frozenset({"deletionVectors"}),
                 writer_features=frozenset({"deletionVectors", "appendOnly", "invariants"}))
    )  # fmt: skip
    removes = removes_of(file, deletion_timestamp=5, data_change=True)
    theirs.commit(adds=marked, removes=removes, operation=Operation(name="DELETE"))
    result = transaction.commit_rewrites(rewrites, operation=OPTIMIZE)
    assert result.lost_bins == (1,)
    assert paths(filled) == ["20", "21", "big1"]


def test_another_compaction_of_one_bin_costs_only_that_bin(filled, bins):
    first, second = filled.start_transaction(), filled.start_transaction()
    first.commit_rewrites(bins(first)[:1], operation=OPTIMIZE)
    result = second.commit_rewrites(bins(second), operation=OPTIMIZE)
    assert result.lost_bins == (0,)
    assert paths(filled) == ["big1", "big2"]


def test_a_changed_schema_costs_all_and_a_changed_property_none(filled, bins, metadata):
    lost, kept = filled.start_transaction(), filled.start_transaction()
    rewrites = bins(kept)
    change = filled.start_transaction()
    change.set_metadata(replace(metadata, configuration={"delta.checkpointInterval": "100"}))
    change.commit(operation=Operation(name="SET TBLPROPERTIES"))
    assert kept.commit_rewrites(rewrites[:1], operation=OPTIMIZE).committed
    change = filled.start_transaction()
    schema = metadata.schema_string.replace('"metadata": {}', '"metadata": {"comment": "x"}')
    change.set_metadata(replace(change.metadata, schema_string=schema))
    change.commit(operation=Operation(name="CHANGE COLUMN"))
    with pytest.raises(MetadataChangedError):
        lost.commit_rewrites(rewrites[1:], operation=OPTIMIZE)


def test_files_that_were_looked_at_and_left_do_not_matter(filled, bins):
    transaction = filled.start_transaction()
    transaction.files()
    rewrites = bins(transaction)[:1]
    delete(filled, "day = '2'")
    assert transaction.commit_rewrites(rewrites, operation=OPTIMIZE).lost_bins == ()


def test_rewrites_must_not_change_data(filled, bins):
    transaction = filled.start_transaction()
    with pytest.raises(InvalidCommitError):
        transaction.commit_rewrites(bins(transaction, data_change=True), operation=OPTIMIZE)


def test_no_bins_are_no_commit(filled):
    assert not filled.start_transaction().commit_rewrites([], operation=OPTIMIZE).committed
    assert filled.refresh().version == 1


def test_the_duplicate_attempt_of_a_rewrite_is_found_behind_a_winner_that_took_its_files(filled, bins):
    attempts = [filled.start_transaction() for _ in range(2)]
    origin = Origin(token="t")
    results = [attempt.commit_rewrites(bins(attempt), operation=OPTIMIZE, origin=origin) for attempt in attempts]
    assert [(result.version, result.already_committed) for result in results] == [(2, False), (2, True)]


def test_bins_keep_their_rows_ids_apart_when_some_are_lost(clock, schema_string, added, bins):
    features = frozenset({"rowTracking", "domainMetadata"})
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=features)
    log = DeltaLog(InMemoryLogStore(clock=clock), clock=clock)
    metadata = Metadata(id="m", schema_string=schema_string, partition_columns=("day",))
    log.create_transaction(metadata, protocol).commit(operation=WRITE)
    log.start_transaction().commit(adds=added(("a", "1", (0, 0)), ("b", "2", (0, 0))), operation=WRITE)
    transaction = log.start_transaction()
    rewrites = bins(transaction)
    delete(log, "day = '1'")
    log.start_transaction().commit(adds=added(("c", "1", (0, 0))), operation=WRITE)

    assert transaction.commit_rewrites(rewrites, operation=OPTIMIZE).lost_bins == (0,)

    ids = {row["path"]: row["base_row_id"] for row in log.refresh().files().to_pylist()}
    assert ids == {"c": 4, "big2": 6}
    mark = '{"rowIdHighWaterMark":7,"domainName":"delta.rowTracking"}'
    assert log.refresh().domains == {"delta.rowTracking": DomainMetadata(domain="delta.rowTracking", configuration=mark)}
