"""Which level a commit needs: the table of Delta Spark's TransactionHelper."""

import pytest

from airflow_delta.core.actions import CommitActions, DomainMetadata, Protocol, SetTransaction
from airflow_delta.core.transaction.isolation_level import IsolationLevel, commit_isolation_level, table_isolation_level

SERIALIZABLE, WRITE_SERIALIZABLE, SNAPSHOT_ISOLATION = IsolationLevel


@pytest.mark.parametrize(
    ("configuration", "level"),
    [
        ({}, SERIALIZABLE),
        ({"delta.isolationLevel": "Serializable"}, SERIALIZABLE),
        ({"delta.isolationLevel": "WriteSerializable"}, WRITE_SERIALIZABLE),
        ({"delta.isolationLevel": "writeserializable"}, WRITE_SERIALIZABLE),
        ({"delta.isolationLevel": "SnapshotIsolation"}, SERIALIZABLE),
    ],
)
def test_a_table_is_serializable_unless_it_says_write_serializable(configuration, level):
    assert table_isolation_level(configuration) is level


@pytest.mark.parametrize("table_level", [SERIALIZABLE, WRITE_SERIALIZABLE])
def test_a_commit_that_changes_data_takes_the_level_of_the_table(table_level, added, removed):
    for actions in (CommitActions(adds=added(("a", "1", None))), CommitActions(removes=removed("a"))):
        assert commit_isolation_level(table_level, actions, changes_data=True) is table_level


@pytest.mark.parametrize(
    ("table_level", "changes_data", "level"),
    [
        pytest.param(SERIALIZABLE, False, SNAPSHOT_ISOLATION, id="optimize"),
        pytest.param(SERIALIZABLE, True, SNAPSHOT_ISOLATION, id="merge-that-changed-nothing"),
        pytest.param(WRITE_SERIALIZABLE, False, SNAPSHOT_ISOLATION, id="optimize-write-serializable"),
        pytest.param(WRITE_SERIALIZABLE, True, WRITE_SERIALIZABLE, id="merge-that-changed-nothing-write-serializable"),
    ],
)
def test_a_commit_without_data_change_only_needs_its_own_files(table_level, changes_data, level, added, removed):
    rearranged = CommitActions(adds=added(("b", "1", None), data_change=False), removes=removed("a", data_change=False))
    for actions in (rearranged, CommitActions()):
        assert commit_isolation_level(table_level, actions, changes_data=changes_data) is level


@pytest.mark.parametrize(
    "other",
    [
        {"transactions": (SetTransaction(app_id="a", version=1),)},
        {"domains": (DomainMetadata(domain="d", configuration=""),)},
        {"protocol": Protocol(min_reader_version=1, min_writer_version=2)},
    ],
)
def test_any_other_action_costs_a_rearranging_commit_its_snapshot_isolation(other, removed):
    actions = CommitActions(removes=removed("a", data_change=False), **other)
    assert commit_isolation_level(SERIALIZABLE, actions, changes_data=False) is SERIALIZABLE
