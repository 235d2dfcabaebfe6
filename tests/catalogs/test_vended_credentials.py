"""Temporary storage credentials that a catalog vends for a table."""

import json
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from airflow_delta.catalogs.catalog import resolve
from airflow_delta.catalogs.errors import (
    CatalogAccessDeniedError,
    CatalogRequestError,
    CatalogUnavailableError,
    InvalidCatalogError,
)
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
    """Vends credentials that are valid for an hour each; raises ``error`` instead while it is set."""

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


def test_a_thread_does_not_wait_for_another_one_that_renews_them_while_the_old_ones_hold():
    clock, began, may_answer = Clock(), threading.Event(), threading.Event()
    catalog = Catalog(clock)

    def slow_after_the_first():
        if catalog.requests:
            began.set()
            assert may_answer.wait(10)
        return catalog()

    credentials = VendedCredentials(slow_after_the_first, clock=clock)
    credentials()
    clock.now = 40 * 60_000
    with ThreadPoolExecutor(1) as threads:
        renewing = threads.submit(credentials)
        assert began.wait(10)
        assert credentials()["key"] == "k1"
        may_answer.set()
        assert renewing.result()["key"] == "k2"
    assert (credentials()["key"], catalog.requests) == ("k2", 2)


def test_threads_that_have_none_request_them_once():
    catalog = Catalog(Clock())
    credentials = VendedCredentials(lambda: time.sleep(0.05) or catalog(), clock=catalog.clock)
    with ThreadPoolExecutor(8) as threads:
        assert {options["key"] for options in threads.map(lambda _: credentials(), range(8))} == {"k1"}


def of_seconds(seconds, clock, requests):
    """Vends keys that are valid for this many seconds."""
    options = {"key": f"k{len(requests) + 1}"}
    requests.append(clock.now)
    return StorageCredential(prefix="s3://lake", ends=clock.now + seconds * 1_000, options=options)


def test_keys_that_live_shorter_than_the_pause_between_two_requests_are_not_served_after_their_end():
    clock, requests = Clock(), []
    credentials = VendedCredentials(lambda: of_seconds(3, clock, requests), clock=clock)
    for clock.now in range(0, 10_000, 500):
        credentials()
    assert requests == [0, 3_000, 6_000, 9_000]


def test_keys_that_have_ended_when_they_come_are_not_requested_at_each_use():
    clock, requests = Clock(), []
    credentials = VendedCredentials(lambda: of_seconds(-60, clock, requests), clock=clock)
    for clock.now in range(100_000, 120_000, 500):
        credentials()
    assert requests == [100_000, 110_000]


def test_of_the_secrets_the_latest_are_known_and_no_more_than_so_many(monkeypatch):
    monkeypatch.setattr("airflow_delta.catalogs.vended_credentials._MOST_SECRETS", 4)
    keys = iter([f"bounded-{number}" for number in range(20)])
    clock = Clock()
    credentials = VendedCredentials(
        lambda: StorageCredential(prefix="s3://lake", ends=clock.now, options={"key": next(keys)}), clock=clock
    )
    for clock.now in range(0, 200_000, 10_000):
        credentials()
    assert vended_secrets() == {f"bounded-{number}" for number in range(16, 20)}


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


def test_what_else_the_storage_needs_stays_beside_what_is_vended_at_each_moment():
    own = {"endpoint_url": "http://s3", "key": "own", "secret": "own"}
    keys = iter(["first", "second"])
    options = vended_with("s3://lake/orders", own, lambda: {"key": next(keys)})
    assert [options.current, options.current] == [{"endpoint_url": "http://s3", "key": key} for key in ("first", "second")]
    assert vended_with("s3://lake/orders", own, None) is own


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
    """The table's log as opened by a process without keys of its own."""
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


def test_one_process_has_the_keys_of_a_table_once_and_others_for_another_token_name_or_place(unity, s3, orders):
    settings = unity.settings(vends_credentials=True)
    table = ManagedTable.of(resolve(open_catalog(settings), NAME))
    kept = table.credentials(settings)
    assert ManagedTable.from_json(table.to_json()).credentials(unity.settings(vends_credentials=True)) is kept
    others = [
        table.credentials(replace(settings, credentials={"token": "renewed-token"})),
        replace(table, name="sales.renamed").credentials(settings),
        replace(table, location="s3://lake/moved").credentials(settings),
    ]
    assert kept not in others
    assert len(set(others)) == 3


def test_the_tables_that_were_used_last_are_kept_and_no_more_than_so_many(unity, monkeypatch):
    monkeypatch.setattr("airflow_delta.catalogs.managed_tables._MOST_TABLES", 2)
    monkeypatch.setattr("airflow_delta.catalogs.managed_tables._vended", {})
    settings = unity.settings(vends_credentials=True)

    def credentials_of(name):
        return ManagedTable(name=f"sales.{name}", location=f"s3://lake/{name}", table_id=name).credentials(settings)

    a, b = credentials_of("a"), credentials_of("b")
    assert credentials_of("a") is a
    credentials_of("c")
    assert credentials_of("a") is a
    assert credentials_of("b") is not b


def test_only_unity_vends(unity):
    glue = CatalogSettings(type="glue", vends_credentials=True)
    assert ManagedTable(name="sales.a", location="s3://lake/a", table_id="a").credentials(glue) is None


def travelled(unity, s3, orders, *, others_ask):
    """The storage options of the table's files as another process receives them, and what was sent to it."""
    settings = unity.settings(vends_credentials=True)
    table = ManagedTable.of(resolve(open_catalog(settings), NAME))
    vended = table.vended_options(settings, others_ask=lambda _table: others_ask)
    sent = pickle.dumps(vended_with(orders.location, {"endpoint_url": s3.endpoint}, vended))
    return pickle.loads(sent), sent


def shows(content, secrets):
    return [secret for secret in secrets if secret.encode() in content]


def test_where_the_executors_ask_themselves_no_key_travels_and_they_take_the_catalog_of_their_environment(
    unity, s3, orders, monkeypatch
):
    options, sent = travelled(unity, s3, orders, others_ask=True)
    with pytest.raises(InvalidCatalogError, match="AIRFLOW_DELTA_CATALOG"):
        options["key"]
    for name, value in unity.environment(vends_credentials=True).items():
        monkeypatch.setenv(name, value)
    assert options["key"] in s3.keys
    assert options["endpoint_url"] == s3.endpoint
    assert shows(sent + pickle.dumps(options), [*s3.secrets, TOKEN]) == []


def test_where_they_cannot_ask_the_keys_that_hold_now_travel_and_the_token_never(unity, s3, orders, monkeypatch):
    options, sent = travelled(unity, s3, orders, others_ask=False)
    assert (list(s3.keys), options["key"]) == (["ASIAVENDED0000000000"], "ASIAVENDED0000000000")
    assert shows(sent, [TOKEN]) == []
    assert "vended" not in repr(options).lower()
    for name, value in unity.environment(vends_credentials=True).items():
        monkeypatch.setenv(name, value)
    assert options["key"] in s3.keys  # a process that can ask the catalog gets its own keys


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
