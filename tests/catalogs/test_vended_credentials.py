"""Keys of a table's storage that its catalog gives for a time."""

import json
import time

import pytest

from airflow_delta.catalogs.catalog import resolve
from airflow_delta.catalogs.errors import CatalogAccessDeniedError, CatalogRequestError, CatalogUnavailableError
from airflow_delta.catalogs.managed_tables import ManagedTable, vended_with
from airflow_delta.catalogs.settings import CatalogSettings, open_catalog
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.catalogs.vended_credentials import StorageCredential, VendedCredentials, credential_for, vended_secrets
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.storage.resolve import log_store_for
from tests.catalogs.guarded_s3 import guarded_s3
from tests.catalogs.managed_unity import TOKEN, managed_unity
from tests.core.managed.conftest import WRITE, adds

NAME = TableName("orders", "sales")


def document(prefix="s3://lake/orders", ends=1_000, **config):
    names = {"key": "s3.access-key-id", "secret": "s3.secret-access-key", "token": "s3.session-token"}
    return {
        "prefix": prefix,
        "operation": "READ",
        "expiration-time-ms": ends,
        "config": {names.get(name, name): value for name, value in config.items()},
    }


class Clock:
    now = 0

    def __call__(self):
        return self.now


class Catalog:
    """Gives one credential after the other, each of an hour; ``error`` is raised instead while it is set."""

    def __init__(self, clock):
        self.clock, self.requests, self.error = clock, 0, None

    def __call__(self):
        if self.error is not None:
            raise self.error
        self.requests += 1
        return StorageCredential(prefix="s3://lake", ends=self.clock() + 3_600_000, options={"key": f"k{self.requests}"})


def held_by(catalog, clock, minute):
    clock.now = minute * 60_000
    return catalog()["key"]


def test_credentials_are_requested_once_and_renewed_when_half_of_their_time_is_over():
    clock = Clock()
    catalog = Catalog(clock)
    credentials = VendedCredentials(catalog, clock=clock)
    assert catalog.requests == 0
    assert [held_by(credentials, clock, minute) for minute in (0, 29, 30, 59, 60, 200)] == ["k1", "k1", "k2", "k2", "k3", "k4"]


def test_while_the_catalog_does_not_answer_those_that_have_not_ended_serve_on():
    clock = Clock()
    catalog = Catalog(clock)
    credentials = VendedCredentials(catalog, clock=clock)
    credentials()
    catalog.error = CatalogUnavailableError(catalog="unity", name="sales.orders", detail="down")
    assert held_by(credentials, clock, 40) == "k1"
    with pytest.raises(CatalogUnavailableError):
        held_by(credentials, clock, 60)
    catalog.error = None
    assert held_by(credentials, clock, 61) == "k2"


def test_what_the_catalog_refuses_is_not_served_on():
    clock = Clock()
    catalog = Catalog(clock)
    credentials = VendedCredentials(catalog, clock=clock)
    credentials()
    refused = {"catalog": "unity", "table": "sales.orders", "principal": "alice", "privilege": "SELECT", "detail": "no"}
    catalog.error = CatalogAccessDeniedError(**refused)
    with pytest.raises(CatalogAccessDeniedError):
        held_by(credentials, clock, 40)


def test_each_secret_is_hidden_once_and_known_to_the_redaction_of_texts():
    hidden = []
    credential = StorageCredential(prefix="s3://lake", ends=0, options={"key": "id-of-hidden", "secret": "hidden-secret"})
    credentials = VendedCredentials(lambda: credential, hide=hidden.append)
    credentials()
    credentials()
    assert sorted(hidden) == ["hidden-secret", "id-of-hidden"]
    assert set(hidden) <= vended_secrets()
    assert "hidden" not in repr(credential) + repr(credentials)


def test_of_several_credentials_the_one_with_the_longest_prefix_is_the_tables():
    documents = [
        document("s3://lake", key="wide"),
        document("s3a://lake/orders/", key="narrow"),
        document("s3://lake/ord", key="x"),
    ]
    assert credential_for("s3://lake/orders", documents).options == {"key": "narrow"}


@pytest.mark.parametrize(
    "documents",
    [
        None,
        [],
        [document("s3://lake/orders-2", key="secret-key")],
        [{"prefix": "s3://lake/orders", "config": {"s3.access-key-id": "secret-key"}}],
        ["secret-key"],
    ],
)
def test_an_answer_without_a_credential_of_the_table_is_refused_and_not_shown(documents):
    with pytest.raises(ValueError, match="expected a credential") as caught:
        credential_for("s3://lake/orders", documents)
    assert "secret-key" not in str(caught.value)


def test_what_else_the_storage_needs_stays_beside_what_is_vended():
    own = {"endpoint_url": "http://s3", "key": "own"}
    assert vended_with("s3://lake/orders", own, {"key": "vended"}) == {"endpoint_url": "http://s3", "key": "vended"}
    assert vended_with("s3://lake/orders", own, {}) is own


@pytest.fixture
def s3():
    with guarded_s3() as s3:
        yield s3


@pytest.fixture
def unity(s3):
    with managed_unity() as unity:
        unity.names.vend = s3.vend
        yield unity


@pytest.fixture
def orders(unity, s3):
    return unity.make("orders", "s3://lake/orders", options={"key": "test", "secret": "test", "endpoint_url": s3.endpoint})


def opened(unity, s3, orders):
    """The table's log as a process opens it that has no key of its own."""
    settings = unity.settings(vends_credentials=True)
    table = ManagedTable.of(resolve(open_catalog(settings), NAME))

    def open_files(vended):
        return log_store_for(orders.location, vended_with(orders.location, {"endpoint_url": s3.endpoint}, vended))

    return DeltaLog(table.log_store(open_files, settings))


def test_a_table_is_read_and_committed_to_by_vended_keys_alone(unity, s3, orders):
    log = opened(unity, s3, orders)
    assert log.start_transaction().commit(adds=adds("a"), operation=WRITE).version == 1
    assert (len(s3.keys), s3.refused, set(s3.used)) == (1, 0, set(s3.keys))
    assert log.store.storage_options["key"] in s3.keys


@pytest.mark.slow
def test_work_that_takes_longer_than_the_keys_last_goes_on_by_renewed_ones(unity, s3, orders, monkeypatch):
    monkeypatch.setattr("airflow_delta.catalogs.vended_credentials.LEAST_PAUSE", 100)
    s3.lifetime = 6_000
    log, until, count = opened(unity, s3, orders), time.monotonic() + 10, 0
    while time.monotonic() < until:
        log.start_transaction().commit(adds=adds(str(count)), operation=WRITE)
        count += 1
    assert (len(s3.keys) > 2, s3.refused) == (True, 0)
    assert (orders.ratified, opened(unity, s3, orders).snapshot().version) == (list(range(1, count + 1)), count)


def test_who_may_only_read_gets_keys_to_read(unity, s3, orders):
    unity.names.tokens[TOKEN] = ("GET",)
    assert opened(unity, s3, orders).snapshot().version == 0
    requested = [path.rpartition("=")[2] for _, path in unity.names.requests if "credentials" in path]
    assert requested == ["READ_WRITE", "READ"]


def test_an_answer_about_credentials_that_cannot_be_is_typed(unity, s3, orders):
    unity.names.vend = lambda _operation: ("secret-key", 0)
    with pytest.raises(CatalogRequestError) as caught:
        opened(unity, s3, orders).snapshot()
    assert "secret-key" not in str(caught.value)


def test_a_setting_says_whether_the_catalog_vends(unity):
    text = json.dumps({"type": "unity", "uri": unity.uri, "vends_credentials": True})
    assert CatalogSettings.parse(text).vends_credentials
    assert "vends_credentials" not in unity.settings().to_json()
    assert unity.settings(vends_credentials=True).to_json()["vends_credentials"] is True
