"""Tables that a write makes, with every feature, and tables that take the place of others."""

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    AppendOnlyTableError,
    ConstraintViolatedError,
    SchemaMismatchError,
    TableExistsError,
)
from airflow_delta.core.log.in_memory_managed_commits import InMemoryManagedCommits
from airflow_delta.core.log.managed_log_store import ManagedLogStore
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import LONG
from airflow_delta.core.statements import SqlSource, WriteStatement
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.table_changes import NewTable
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.write.target import Target

FEATURES = {
    "delta.columnMapping.mode": "id",
    "delta.enableDeletionVectors": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.enableTypeWidening": "true",
    "delta.enableRowTracking": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.checkpointPolicy": "v2",
    "delta.checkpointInterval": "2",
    "delta.feature.vacuumProtocolCheck": "supported",
}


def test_properties_of_the_first_write_switch_features_on(spark, write_rows, seen, latest, table):
    result = write_rows("SELECT id, CAST(id % 2 AS STRING) AS `p q` FROM range(4)", partition_by="P Q", properties=FEATURES)
    write_rows("SELECT 9L AS id, '1' AS `p q`")

    assert (result.operation, result.version) == ("CREATE TABLE AS SELECT", 0)
    assert seen("id") == [(0,), (1,), (2,), (3,), (9,)]
    rows = read_table(spark, latest()).collect()  # duckdb gives NULL for partition columns that are mapped
    assert sorted(rows) == [(0, "0"), (1, "1"), (2, "0"), (3, "1"), (9, "1")]
    first = DeltaLog.for_table(table).snapshot(version=0)
    assert first.protocol.writer_features >= {
        "columnMapping", "deletionVectors", "inCommitTimestamp", "typeWidening", "v2Checkpoint", "vacuumProtocolCheck",
        "rowTracking", "changeDataFeed",
    }  # fmt: skip
    assert first.files()["base_row_id"].null_count == 0
    assert "delta.feature.vacuumProtocolCheck" not in first.metadata.configuration
    assert first.metadata.configuration["delta.columnMapping.maxColumnId"] == "2"
    assert (first.partition_columns, first.commit_info.in_commit_timestamp) == (("p q",), first.timestamp)


def test_two_writers_that_make_one_mapped_table_both_write_into_it(write_rows, seen, latest, monkeypatch):
    properties = {"delta.columnMapping.mode": "name"}

    def after_another(self):
        monkeypatch.undo()
        write_rows("SELECT 1 AS id", properties=properties)
        return self.keep()

    monkeypatch.setattr("airflow_delta.spark.io.staging.StagingArea.keep", after_another)
    result = write_rows("SELECT 2 AS id", properties=properties)

    assert seen() == [(1,), (2,)]
    assert (result.version, result.operation) == (1, "WRITE")


def test_a_table_may_be_made_clustered_and_its_clustering_is_repeated_or_left_out(write_rows, reference_rows, latest):
    write_rows("SELECT 1 AS id, named_struct('x', 2) AS s", cluster_by=["id", "s.x"])
    write_rows("SELECT 2 AS id, named_struct('x', 3) AS s", cluster_by=["ID", "S.x"])
    with pytest.raises(SchemaMismatchError, match=r"cluster_by is \(id\), but the table is clustered by \(id, s.x\)"):
        write_rows("SELECT 2 AS id, named_struct('x', 3) AS s", cluster_by="id")

    assert reference_rows("id", "id") == [(1,), (2,)]
    assert '[["id"],["s","x"]]' in latest().domains["delta.clustering"].configuration
    assert {"clustering", "domainMetadata"} <= latest().protocol.writer_features


def test_a_table_that_cannot_be_clustered_so_is_not_made(write_rows, tmp_path):
    with pytest.raises(SchemaMismatchError, match="has no min/max statistics to cluster by"):
        write_rows("SELECT 1 AS id, true AS flag", cluster_by="flag")

    assert list(tmp_path.iterdir()) == []


def test_create_makes_a_table_only_where_there_is_none(write_rows, reference_rows):
    write_rows("SELECT 1 AS id", mode="create")
    with pytest.raises(TableExistsError):
        write_rows("SELECT 2 AS id", mode="create")

    assert reference_rows() == [(1,)]


def test_create_or_replace_leaves_nothing_of_the_former_table_but_its_history(write_rows, reference_rows, latest, table):
    first = write_rows(
        "SELECT 1 AS id, 'a' AS p",
        mode="create_or_replace",
        partition_by="p",
        properties={"delta.checkpointInterval": "3", "mine": "1"},
    )
    former = latest().metadata.id
    second = write_rows("SELECT 'one' AS key, 2 AS n", mode="create_or_replace", cluster_by="n", properties={"mine": "2"})

    assert [first.operation, second.operation] == ["CREATE OR REPLACE TABLE AS SELECT"] * 2
    assert reference_rows("key") == [("one", 2)]
    assert latest().metadata.configuration == {"mine": "2"}
    assert (latest().partition_columns, latest().metadata.id) == ((), former)
    assert reference_rows(version=0) == [(1, "a")]
    assert second.metrics["numRemovedFiles"] == 1
    assert latest().commit_info.operation_parameters["clusterBy"] == '["n"]'
    write_rows("SELECT 2 AS key", mode="create_or_replace")
    assert latest().domains == {}
    assert [commit.commit_info.operation for commit in DeltaLog.for_table(table).history()] == [first.operation] * 3


def test_a_table_that_only_takes_appends_is_not_replaced(write_rows, reference_rows):
    write_rows("SELECT 1 AS id", properties={"delta.appendOnly": "true"})
    for mode in ("overwrite", "create_or_replace"):
        with pytest.raises(AppendOnlyTableError):
            write_rows("SELECT 2 AS id", mode=mode)

    assert reference_rows() == [(1,)]


def test_constraints_of_a_replaced_table_are_gone_and_those_of_an_overwritten_one_hold(write_rows, reference_rows, table):
    write_rows("SELECT 1 AS id")
    DeltaLog.for_table(table).alter().add_constraint("small", "id < 5")
    with pytest.raises(ConstraintViolatedError, match="small"):
        write_rows("SELECT 7 AS id", mode="overwrite")
    write_rows("SELECT 7 AS id", mode="create_or_replace")

    assert reference_rows() == [(7,)]


def test_a_managed_table_that_a_write_replaces_keeps_the_id_and_the_times_that_its_catalog_requires():
    kept = {"catalog.id": "7", "delta.enableInCommitTimestamps": "true"}
    log = DeltaLog(ManagedLogStore(InMemoryLogStore(), InMemoryManagedCommits(identity={"catalog.id": "7"})))
    rows = StructType((StructField("id", LONG),))
    log.create(NewTable(schema=rows, properties={**kept, "delta.feature.catalogManaged": "supported"}))
    statement = WriteStatement(table="t", source=SqlSource("SELECT 1 AS id"), mode="create_or_replace")
    definition = Target.of(log, statement, log.snapshot(), rows).definition
    assert dict(definition.metadata.configuration) == kept
    assert "catalogManaged" in definition.protocol.reader_features
