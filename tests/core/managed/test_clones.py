"""Clones of tables that a catalog manages: tables of their own, which need no catalog."""

import json

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidTablePropertyError
from airflow_delta.core.log.in_memory_managed_commits import InMemoryManagedCommits
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.table_features.feature import writer_features
from tests.core.managed.conftest import FEATURES, Managed

TIMESTAMPS = "delta.enableInCommitTimestamps"


@pytest.fixture
def managed():
    """Version 1 is ratified and not published."""
    table = Managed(catalog=InMemoryManagedCommits(identity={"catalog.id": "7"}), configuration={"catalog.id": "7"})
    table.store.write("f1", b"0123456789")
    table.foreign_commit(1, "f1", size=10)
    return table


def test_a_deep_clone_is_opened_by_its_path(managed):
    clone = DeltaLog(InMemoryLogStore("memory://clone"), clock=managed.tick)
    assert managed.log().snapshot().metadata.configuration["catalog.id"] == "7"
    assert managed.log().deep_clone(clone).source_version == 1
    made = clone.snapshot()
    assert writer_features(made.protocol) == FEATURES - {"catalogManaged"}
    assert "catalog.id" not in made.metadata.configuration
    assert made.metadata.configuration["delta.enableInCommitTimestamps"] == "true"
    [path] = made.files()["path"].to_pylist()
    assert clone.store.read(path) == b"0123456789"
    assert (
        "inCommitTimestamp"
        in json.loads(clone.store.read("_delta_log/00000000000000000000.json").splitlines()[0])["commitInfo"]
    )


def test_a_managed_table_keeps_its_timestamps_where_the_source_of_its_clone_has_none(managed):
    other = DeltaLog(InMemoryLogStore("memory://other"), clock=managed.tick)
    managed.log().deep_clone(other)
    other.alter().set_properties({TIMESTAMPS: "false"})
    with pytest.raises(InvalidTablePropertyError, match="must keep in-commit timestamps"):
        other.deep_clone(managed.log(), mode="replace", properties={TIMESTAMPS: "false"})
    assert other.deep_clone(managed.log(), mode="replace").version == 2
    assert managed.log().snapshot().metadata.configuration[TIMESTAMPS] == "true"


def test_a_managed_table_that_is_replaced_stays_managed(managed):
    other = DeltaLog(InMemoryLogStore("memory://other"), clock=managed.tick)
    managed.log().deep_clone(other)
    done = other.deep_clone(managed.log(), mode="replace")
    assert (done.version, done.removed_files) == (2, 1)
    made = managed.log().snapshot()
    assert "catalogManaged" in writer_features(made.protocol)
    assert made.metadata.configuration["catalog.id"] == "7"
    [path] = made.files()["path"].to_pylist()
    assert (path != "f1", managed.store.read(path)) == (True, b"0123456789")
