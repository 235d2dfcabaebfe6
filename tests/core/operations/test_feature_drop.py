import json
from dataclasses import replace

import pyarrow as pa
import pytest

from airflow_delta.core.actions import ADD_FILE, DomainMetadata, Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    FeatureDependencyError,
    FeatureDropError,
    FeatureInHistoryError,
    InvalidTablePropertyError,
    ProtocolChangedError,
    UnsupportedWriterFeatureError,
)
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.operations.feature_drop import drop_feature
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import INTEGER, LONG, TIMESTAMP_NTZ
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.table_changes import NewTable, with_default
from airflow_delta.core.table_features.support import ROW_FEATURES
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from tests.core.builders import HandmadeLog, metadata, protocol

HOUR = 3_600_000
DELETION_VECTOR = {
    "storage_type": "u",
    "path_or_inline_dv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "size_in_bytes": 40,
    "cardinality": 1,
}
PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"


class Table:
    """A table in memory whose clock the test moves."""

    def __init__(self, *fields, **properties):
        self.now = 100 * 24 * HOUR
        self.store = InMemoryLogStore("memory://dropping", clock=self.tick)
        self.log = DeltaLog.for_table("memory://dropping", store=self.store, clock=self.tick)
        schema = StructType(fields or (StructField("id", LONG),))
        self.log.create(NewTable(schema=schema, properties={key.replace("_", "."): value for key, value in properties.items()}))

    def tick(self):
        self.now += 1
        return self.now

    def append(self, path, deletion_vector=None):
        row = {"path": path, "partition_values": [], "size": 1, "modification_time": 1, "data_change": True}
        row |= {"stats": '{"numRecords":2}', "deletion_vector": deletion_vector}
        adds = pa.Table.from_pylist([row], schema=ADD_FILE)
        transaction = OptimisticTransaction(self.store, self.tick, self.log.refresh(), enforces=ROW_FEATURES)
        return transaction.commit(adds=adds, operation=Operation(name="WRITE"))

    def set(self, **properties):
        self.log.alter().set_properties({key.replace("_", "."): value for key, value in properties.items()})

    def drop(self, name, **options):
        return self.log.drop_feature(name, **options)

    def refused(self, name, error=FeatureDropError, **options):
        with pytest.raises(error) as caught:
            self.drop(name, **options)
        assert type(caught.value) is error
        return caught.value

    @property
    def protocol(self):
        return self.log.refresh().protocol

    @property
    def properties(self):
        return dict(self.log.refresh().metadata.configuration)

    @property
    def operations(self):
        return [entry.commit_info.operation for entry in reversed(self.log.history())]

    @property
    def checkpoints(self):
        return {checkpoint.version for checkpoint in list_log(self.store).checkpoints}


def test_a_rule_of_writers_goes_at_once():
    table = Table(delta_feature_checkConstraints="supported")
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (1, 3)
    result = table.drop("CHECKconstraints")
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (1, 2)
    assert result.commit_info.operation == "DROP FEATURE"
    assert result.commit_info.operation_parameters == {"featureName": "checkConstraints", "truncateHistory": False}
    assert table.checkpoints == set()


@pytest.mark.parametrize(
    ("properties", "feature", "cure"),
    [
        ({"delta_appendOnly": "true"}, "appendOnly", "set delta.appendOnly to false first"),
        ({"delta_enableChangeDataFeed": "true"}, "changeDataFeed", "set delta.enableChangeDataFeed to false first"),
        ({"delta_columnMapping.mode": "name"}, "columnMapping", "write the rows into a new table"),
    ],
)
def test_a_feature_that_a_property_enables_is_not_dropped(properties, feature, cure):
    table = Table(**properties)
    assert table.refused(feature).cure.startswith(cure)
    assert feature in (table.protocol.writer_features or {"appendOnly"})


def test_columns_keep_their_features():
    table = Table(with_default(StructField("a", LONG), "1"), StructField("t", TIMESTAMP_NTZ))
    for feature in ["allowColumnDefaults", "timestampNtz"]:
        assert table.refused(feature).cure.startswith("write the rows into a table without such columns")
    table.log.alter().set_default("a", None)
    table.drop("allowColumnDefaults")
    assert "allowColumnDefaults" not in table.protocol.writer_features


def test_constraints_keep_their_feature():
    table = Table()
    table.log.alter().add_constraint("c", "id > 0")
    assert "the table has the constraints c" in table.refused("checkConstraints").detail


def test_a_feature_that_others_require_stays():
    table = Table(delta_enableRowTracking="true")
    assert "rowTracking require it" in table.refused("domainMetadata", FeatureDependencyError).detail


def test_a_feature_that_is_not_there_is_not_dropped():
    table = Table()
    assert table.refused("deletionVectors").detail == "the table does not have it"


def test_a_mistyped_feature_is_refused_with_the_name_it_is_close_to():
    refused = Table().refused("deletionVector")
    assert refused.detail == "unknown feature 'deletionVector'; did you mean deletionVectors?"
    assert not refused.retryable


def test_a_feature_of_the_table_that_is_unknown_here_is_unsupported():
    log = HandmadeLog().commit(protocol(1, 7, writerFeatures=["novelty"]), metadata())
    with pytest.raises(UnsupportedWriterFeatureError) as caught:
        log.log.drop_feature("novelty")
    assert caught.value.features == ("novelty",)


def test_row_tracking_takes_its_ids_with_it():
    table = Table(delta_enableRowTracking="true")
    table.append("a")
    table.append("b")
    table.drop("rowTracking")
    snapshot = table.log.refresh()
    assert snapshot.files()["base_row_id"].null_count == 2
    assert "delta.rowTracking" not in snapshot.domains
    assert table.properties == {"delta.enableRowTracking": "false"}
    assert table.protocol.writer_features == {"appendOnly", "invariants", "domainMetadata"}
    assert table.operations[3:] == ["SET TBLPROPERTIES", "ROW TRACKING UNBACKFILL", "DROP FEATURE"]
    table.drop("domainMetadata")
    assert table.protocol.min_writer_version == 2


def test_only_the_last_commit_of_a_change_that_takes_several_carries_the_token_of_its_task():
    table = Table()
    table.append("a")
    table.log.alter(origin=Origin(token="on", job={"jobName": "j"})).set_properties({"delta.enableRowTracking": "true"})
    table.log.drop_feature("rowTracking", origin=Origin(token="off", job={"jobName": "j"}))
    origins = [entry.commit_info.origin for entry in table.log.history()][:-2]
    assert [origin.token for origin in origins] == ["off", None, None, "on", None, None]
    assert all(origin.job["jobName"] == "j" for origin in origins)


def test_in_commit_timestamps_end_with_their_provenance():
    table = Table()
    table.set(delta_enableInCommitTimestamps="true")
    table.append("a")
    table.drop("inCommitTimestamp")
    assert table.properties == {"delta.enableInCommitTimestamps": "false"}
    assert table.protocol.min_writer_version == 2
    assert table.append("b").commit_info.in_commit_timestamp is None


def test_clustering_goes_when_there_are_no_clustering_columns():
    table = Table()
    table.log.alter().cluster_by("id")
    assert table.refused("clustering").cure == "cluster it by no columns first"
    table.log.alter().cluster_by()
    table.drop("clustering")
    assert "delta.clustering" not in table.log.refresh().domains
    table.drop("domainMetadata")


@pytest.mark.parametrize(
    "configuration", ['{"clusteringColumns": []}', '{"domainName":"delta.clustering","clusteringColumns":[ ]}']
)
def test_no_clustering_columns_are_none_however_another_writer_spells_them(configuration):
    table = Table()
    table.log.alter().cluster_by("id")
    domain = DomainMetadata(domain="delta.clustering", configuration=configuration)
    table.log.start_transaction().commit(domains=[domain], operation=Operation(name="CLUSTER BY"))
    table.drop("clustering")
    assert "delta.clustering" not in table.log.refresh().domains


@pytest.mark.parametrize("configuration", ["{}", "[]", "null", "", '{"clusteringColumns":["id"]}'])
def test_clustering_stays_while_its_domain_does_not_say_that_there_are_no_columns(configuration):
    table = Table()
    table.log.alter().cluster_by("id")
    domain = DomainMetadata(domain="delta.clustering", configuration=configuration)
    table.log.start_transaction().commit(domains=[domain], operation=Operation(name="CLUSTER BY"))
    assert table.refused("clustering").detail == "the table has clustering columns"


def test_domains_of_users_keep_their_feature():
    table = Table(delta_feature_domainMetadata="supported")
    domain = DomainMetadata(domain="mine", configuration="{}")
    table.log.start_transaction().commit(domains=[domain], operation=Operation(name="SET DOMAIN"))
    assert "mine" in table.refused("domainMetadata").detail


def test_domains_of_the_protocol_that_other_writers_left_end_before_their_feature():
    table = Table(delta_feature_domainMetadata="supported")
    domain = DomainMetadata(domain="delta.ofAnotherWriter", configuration="{}")
    table.log.start_transaction().commit(domains=[domain], operation=Operation(name="SET DOMAIN"))
    table.log.drop_feature("domainMetadata", origin=Origin(token="t"))
    assert table.log.refresh().domains == {}
    assert table.protocol.min_writer_version == 2
    assert table.operations[2:] == ["DROP FEATURE", "DROP FEATURE"]
    assert [entry.commit_info.origin.token for entry in table.log.history(2)] == ["t", None]


def test_deletion_vectors_must_be_purged_first():
    table = Table(delta_enableDeletionVectors="true")
    table.append("a", DELETION_VECTOR)
    assert "purge" in table.refused("deletionVectors").cure
    assert table.properties == {"delta.enableDeletionVectors": "false"}  # no writer adds new ones meanwhile


def test_versions_in_which_readers_need_the_feature_are_protected():
    table = Table(delta_enableDeletionVectors="true")
    table.append("a")
    result = table.drop("deletionVectors")
    assert table.operations == ["CREATE TABLE", "WRITE", "SET TBLPROPERTIES", "DROP FEATURE"]
    assert table.protocol.min_reader_version == 1
    assert table.protocol.writer_features == {"appendOnly", "invariants", "checkpointProtection"}
    assert table.properties[PROTECTED] == str(result.version) == "3"
    assert table.checkpoints == {2, 3}


def test_a_checkpoint_that_fails_after_the_drop_does_not_undo_it():
    table = Table(delta_enableDeletionVectors="true")
    open_output = table.store.open_output

    def full(path):
        if path.endswith("2.checkpoint.parquet"):
            raise OSError("no space left")
        return open_output(path)

    table.store.open_output = full
    result = table.drop("deletionVectors")
    assert (result.version, result.hook_failures) == (2, ("OSError: no space left",))
    assert table.protocol.min_reader_version == 1
    assert table.checkpoints == {1}


def test_a_lost_race_protects_the_version_that_it_became():
    table = Table(delta_enableDeletionVectors="true")

    class Slow:
        """The log as the operation sees it, while others commit before it does."""

        store, clock, table_uri = table.store, table.tick, table.log.table_uri
        refresh, snapshot = table.log.refresh, table.log.snapshot

        def start_transaction(self):
            transaction = table.log.start_transaction()
            if transaction.read_version == 1:
                table.append("a")
            return transaction

    result = drop_feature(Slow(), "deletionVectors")
    assert result.version == 3
    assert table.properties[PROTECTED] == "3"


def test_a_feature_that_is_used_again_meanwhile_is_not_dropped():
    table = Table(delta_enableDeletionVectors="true")
    table.set(delta_enableDeletionVectors="false")

    class Slow:
        store, clock, table_uri = table.store, table.tick, table.log.table_uri
        refresh, snapshot = table.log.refresh, table.log.snapshot
        started = 0

        def start_transaction(self):
            transaction = table.log.start_transaction()
            self.started += 1
            if self.started == 2:
                table.append("a", DELETION_VECTOR)
            return transaction

    with pytest.raises(ProtocolChangedError):
        drop_feature(Slow(), "deletionVectors")
    assert "deletionVectors" in table.protocol.reader_features


def test_v2_checkpoints_are_followed_by_a_classic_one():
    table = Table(delta_checkpointPolicy="v2")
    table.append("a")
    table.log.checkpoint()
    table.drop("v2Checkpoint")
    assert table.properties["delta.checkpointPolicy"] == "classic"
    newest = list_log(table.store).checkpoints[-1]
    assert (newest.version, newest.is_manifest) == (3, False)
    assert len(table.log.snapshot().files()) == 1


def test_history_is_truncated_when_it_is_old_enough():
    table = Table(delta_enableDeletionVectors="true")
    table.append("a")
    error = table.refused("deletionVectors", FeatureInHistoryError, truncate_history=True)
    assert "version 0 of the table still needs it" in error.detail
    table.now += 23 * HOUR
    table.refused("deletionVectors", FeatureInHistoryError, truncate_history=True)
    table.append("b")
    table.now += 25 * HOUR
    table.drop("deletionVectors", truncate_history=True)
    assert table.protocol.writer_features is None
    assert PROTECTED not in table.properties
    assert min(list_log(table.store).commits) > 1
    assert sorted(table.log.snapshot().files()["path"].to_pylist()) == ["a", "b"]


def test_history_is_not_truncated_while_the_retention_is_unknown():
    table = Table(delta_enableDeletionVectors="true")
    table.append("a")
    transaction = table.log.start_transaction()
    metadata = transaction.snapshot.metadata
    unreadable = {**metadata.configuration, "delta.dropFeatureTruncateHistory.retentionDuration": "a day"}
    transaction.set_metadata(replace(metadata, configuration=unreadable))
    transaction.commit(operation=Operation(name="SET TBLPROPERTIES"))
    before = table.log.refresh().version
    table.refused("deletionVectors", InvalidTablePropertyError, truncate_history=True)
    assert table.log.refresh().version == before


def test_a_rule_of_writers_has_no_history_to_truncate():
    table = Table(delta_enableInCommitTimestamps="true")
    assert "no history to truncate" in table.refused("inCommitTimestamp", truncate_history=True).detail


def test_vacuum_protocol_check_leaves_nothing_in_history():
    table = Table(delta_feature_vacuumProtocolCheck="supported")
    table.drop("vacuumProtocolCheck")
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (1, 2)
    assert PROTECTED not in table.properties


def test_protection_ends_with_the_versions_that_it_protects():
    table = Table(delta_enableDeletionVectors="true")
    table.append("a")
    table.drop("deletionVectors")
    table.refused("checkpointProtection", FeatureInHistoryError)
    table.now += 25 * HOUR
    table.append("b")
    table.now += 25 * HOUR
    table.drop("checkpointProtection", truncate_history=True)
    assert PROTECTED not in table.properties
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (1, 2)


def test_widened_columns_keep_their_feature():
    table = Table(StructField("a", INTEGER), delta_enableTypeWidening="true")
    table.log.alter().widen_column("a", LONG)
    assert table.refused("typeWidening").cure.startswith("write the rows into a new table")
    assert table.properties == {"delta.enableTypeWidening": "true"}  # refused for good: nothing was switched off


def test_the_log_says_what_was_dropped():
    table = Table(delta_feature_vacuumProtocolCheck="supported")
    version = table.drop("vacuumProtocolCheck").version
    lines = [json.loads(line) for line in table.store.read(f"_delta_log/{version:020}.json").decode().splitlines()]
    assert [next(iter(line)) for line in lines] == ["commitInfo", "protocol"]
