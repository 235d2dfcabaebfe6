"""Tables that Unity Catalog manages, opened by their names."""

import json
import pickle
from dataclasses import replace

import pytest

from airflow_delta.catalogs.catalog import resolve
from airflow_delta.catalogs.entry import TableDescription, differences
from airflow_delta.catalogs.errors import InvalidCatalogError
from airflow_delta.catalogs.managed_tables import ManagedTable, opened_through_catalog, remember_entry, remember_managed
from airflow_delta.catalogs.settings import CatalogSettings, open_catalog
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.catalogs.unity_commits import TABLE_ID
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import AnotherManagedTableError, CatalogRequiredError, TableNotFoundError
from airflow_delta.core.log.managed_commits import Maintenance, managing_catalog
from airflow_delta.core.storage.resolve import log_store_for
from tests.catalogs.managed_unity import TOKEN, managed_unity
from tests.core.managed.conftest import WRITE, adds

NAME = TableName("orders", "sales")


@pytest.fixture
def unity():
    with managed_unity() as unity:
        yield unity


@pytest.fixture
def orders(unity, tmp_path):
    return unity.make("orders", (tmp_path / "orders").as_uri())


def files_of(orders):
    return lambda _vended: log_store_for(orders.location)


def entry_of(unity):
    return resolve(open_catalog(unity.settings()), NAME)


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
def test_an_entry_says_by_which_id_the_catalog_manages_its_table(unity, tmp_path, feature):
    orders = unity.make("orders", (tmp_path / "orders").as_uri(), feature=feature)
    managed = ManagedTable.of(entry_of(unity))
    assert managed == ManagedTable(name="sales.orders", location=orders.location, table_id=orders.table_id)


def test_a_table_whose_catalog_does_not_ratify_its_commits_is_not_managed(unity, orders):
    table = unity.names.tables["main", "sales", "orders"]
    del table["properties"]["delta.feature.catalogManaged"]
    assert ManagedTable.of(entry_of(unity)) is None
    table["table-type"] = "EXTERNAL"
    table["properties"]["delta.feature.catalogManaged"] = "supported"
    assert ManagedTable.of(entry_of(unity)) is None


def test_what_is_ratified_and_not_published_is_read_and_committed_behind(unity, orders):
    orders.log().start_transaction().commit(adds=adds("a"), operation=WRITE)
    managed = ManagedTable.of(entry_of(unity))
    log = DeltaLog(managed.log_store(files_of(orders), unity.settings()))
    assert log.start_transaction().commit(adds=adds("b"), operation=WRITE).version == 2
    assert sorted(log.refresh().files()["path"].to_pylist()) == ["a", "b"]
    assert orders.ratified == [1, 2]


def test_a_process_that_knows_a_table_opens_its_location_through_the_catalog_of_its_environment(unity, orders, monkeypatch):
    monkeypatch.setattr("airflow_delta.catalogs.managed_tables._known", {})

    def opened(location=orders.location):
        return DeltaLog(opened_through_catalog(location, lambda _vended: log_store_for(location)))

    with pytest.raises(CatalogRequiredError):
        opened().snapshot()
    remember_managed([ManagedTable.of(entry_of(unity))])
    with pytest.raises(InvalidCatalogError, match="AIRFLOW_DELTA_CATALOG"):
        opened()
    for name, value in unity.environment().items():
        monkeypatch.setenv(name, value)
    assert opened().snapshot().version == 0
    assert managing_catalog(opened(f"{orders.location}-2").store) is None


def test_a_location_that_has_become_another_tables_is_opened_by_its_files_again(unity, orders, monkeypatch):
    monkeypatch.setattr("airflow_delta.catalogs.managed_tables._known", {})
    for name, value in unity.environment().items():
        monkeypatch.setenv(name, value)

    def catalog_of_location():
        return managing_catalog(opened_through_catalog(orders.location, lambda _vended: log_store_for(orders.location)))

    remember_entry(entry_of(unity))
    assert catalog_of_location() is not None
    remember_entry(replace(entry_of(unity), managed_id=None, location=f"{orders.location}/"))
    assert catalog_of_location() is None


def test_another_catalog_manages_no_table(unity, orders):
    managed, files = ManagedTable.of(entry_of(unity)), files_of(orders)
    with pytest.raises(InvalidCatalogError, match="found hive"):
        managed.log_store(files, CatalogSettings(type="hive", uri="thrift://host:9083"))


def test_its_commits_can_be_sent_to_a_process_of_our_own_and_their_token_is_not_shown(unity, orders):
    store = ManagedTable.of(entry_of(unity)).log_store(files_of(orders), unity.settings())
    sent = pickle.loads(pickle.dumps(store.commits))
    assert sent == store.commits
    assert sent.ratified().latest is None
    assert TOKEN not in repr(store.commits) + repr(store.commits.token) + str(unity.settings())


def test_what_the_operator_of_the_catalog_permits_stands_in_its_settings(unity, orders):
    settings = CatalogSettings.parse({**unity.settings().to_json(), "permits": ["vacuum", "log_cleanup"]})
    store = ManagedTable.of(entry_of(unity)).log_store(files_of(orders), settings)
    assert store.permits == {Maintenance.VACUUM, Maintenance.LOG_CLEANUP}
    assert settings.to_json()["permits"] == ["vacuum", "log_cleanup"]
    with pytest.raises(InvalidCatalogError, match="log_cleanup"):
        CatalogSettings.parse({"type": "unity", "uri": unity.uri, "permits": ["everything"]})
    with pytest.raises(InvalidCatalogError, match="list"):
        CatalogSettings.parse({"type": "unity", "uri": unity.uri, "permits": "vacuum"})


def test_settings_come_back_from_the_environment_with_their_token(unity):
    settings = unity.settings(permits=("vacuum",))
    (value,) = settings.to_environment().values()
    assert CatalogSettings.parse(value) == settings
    assert "token" not in json.dumps(settings.to_json())


@pytest.mark.parametrize(
    "document", [None, [], {}, {"name": "n", "location": "/l"}, {"name": "n", "location": "/l", "table_id": 3}]
)
def test_what_describes_no_managed_table_is_refused(document):
    with pytest.raises(ValueError, match="expected a managed table"):
        ManagedTable.from_json(document)


def test_the_catalog_learns_of_columns_and_properties_by_the_commits_so_that_they_are_no_drift(unity, orders):
    table = TableDescription.of(orders.log().snapshot())
    assert differences(entry_of(unity), table) == ()
    unity.names.tables["main", "sales", "orders"]["location"] += "-2"
    assert differences(entry_of(unity), table) == ("location",)


def test_a_table_that_was_made_anew_under_the_name_is_not_taken_for_the_one_that_lies_there(unity, orders):
    """The catalog's table id differs from that of the log at the location."""
    unity.server.add_table("another-id", orders.location)
    unity.names.tables["main", "sales", "orders"]["table-uuid"] = "another-id"
    log = DeltaLog(ManagedTable.of(entry_of(unity)).log_store(files_of(orders), unity.settings()))
    with pytest.raises(AnotherManagedTableError) as caught:
        log.snapshot()
    error = caught.value
    assert (error.expected, error.found, error.id_property) == ("another-id", orders.table_id, TABLE_ID)
    assert unity.server.tables["another-id"].record == orders.ratified == []


def test_a_table_that_was_dropped_at_the_catalog_is_not_found(unity, orders):
    managed = ManagedTable.of(entry_of(unity))
    del unity.server.tables[orders.table_id]
    with pytest.raises(TableNotFoundError):
        DeltaLog(managed.log_store(files_of(orders), unity.settings())).snapshot()


def test_no_commit_changes_the_id_by_which_the_catalog_knows_the_table(orders):
    with pytest.raises(AnotherManagedTableError):
        orders.log().alter().set_properties({TABLE_ID: "another-id"})
    assert orders.ratified == []
