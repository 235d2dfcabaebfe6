"""Statements on catalog-managed tables: the catalog's table id belongs to the location, not to the statement."""

import json

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidTableChangeError, InvalidTablePropertyError
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.log.in_memory_managed_commits import InMemoryManagedCommits
from airflow_delta.core.log.managed_log_store import ManagedLogStore
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import LONG, STRING
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.table_changes import NewTable

ID = "io.unitycatalog.tableId"
TIMESTAMPS = "delta.enableInCommitTimestamps"
KEPT = {ID: "T", TIMESTAMPS: "true"}
SCHEMA = StructType((StructField("id", LONG),))
OTHER = StructType((StructField("name", STRING),))


@pytest.fixture
def log():
    """A table with the id T in its catalog."""
    log = DeltaLog(ManagedLogStore(InMemoryLogStore(), InMemoryManagedCommits(identity={ID: "T"})))
    log.create(NewTable(schema=SCHEMA, properties={"delta.feature.catalogManaged": "supported", TIMESTAMPS: "true"}))
    return log


def configuration(log):
    """The configuration as a new reader sees it."""
    return dict(DeltaLog(log.store).snapshot().metadata.configuration)


def test_a_new_table_names_its_id(log):
    assert configuration(log) == KEPT


@pytest.mark.parametrize("properties", [{}, {TIMESTAMPS: "true"}, {"owner": "me"}], ids=str)
def test_a_table_that_is_replaced_stays_the_one_that_the_catalog_knows(log, properties):
    assert log.create(NewTable(schema=OTHER, properties=properties), mode="replace").version == 1
    assert configuration(log) == {**KEPT, **properties}
    assert log.snapshot().schema == OTHER


def test_a_plan_of_a_replacement_shows_what_stays(log):
    assert dict(log.plan_create(NewTable(schema=OTHER), mode="replace").definition.metadata.configuration) == KEPT


def test_a_restored_version_from_before_stays_the_one_that_the_catalog_knows(log):
    first = commit_path(0)
    lines = list(map(json.loads, log.store.read(first).splitlines()))
    for line in lines:
        line.get("metaData", {"configuration": {ID: "T"}})["configuration"].pop(ID)
    log.store.write(first, "\n".join(map(json.dumps, lines)).encode())
    log = DeltaLog(log.store)
    log.alter().set_properties({ID: "T"})
    log.restore(0)
    assert configuration(log) == KEPT


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.create(NewTable(schema=OTHER, properties={TIMESTAMPS: "false"}), mode="replace"),
        lambda log: log.alter().set_properties({TIMESTAMPS: "false"}),
    ],
    ids=["replace", "set"],
)
def test_in_commit_timestamps_cannot_be_switched_off(log, change):
    with pytest.raises(InvalidTablePropertyError, match="must keep in-commit timestamps") as caught:
        change(log)
    assert (caught.value.name, caught.value.value) == (TIMESTAMPS, "false")
    assert log.refresh().version == 0


def test_in_commit_timestamps_cannot_be_unset(log):
    with pytest.raises(InvalidTableChangeError, match="the catalog that manages the table requires"):
        log.alter().unset_properties(TIMESTAMPS)


def test_the_id_of_the_table_cannot_be_unset(log):
    with pytest.raises(InvalidTablePropertyError, match="knows the table by it; expected 'T'") as caught:
        log.alter().unset_properties(ID)
    assert (caught.value.name, caught.value.value) == (ID, None)
    assert configuration(log) == KEPT


def test_a_table_in_plain_files_has_no_id_and_needs_no_timestamps():
    log = DeltaLog(InMemoryLogStore())
    log.create(NewTable(schema=SCHEMA, properties=KEPT))
    log.create(NewTable(schema=OTHER), mode="replace")
    log.alter().set_properties({TIMESTAMPS: "false"})
    assert configuration(log) == {TIMESTAMPS: "false"}
