"""Unity Catalog, with the strict test server."""

import threading
from dataclasses import replace
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_delta.catalogs.catalog import publish, resolve
from airflow_delta.catalogs.entry import TableDescription
from airflow_delta.catalogs.errors import (
    CatalogAccessDeniedError,
    CatalogRequestError,
    CatalogUnavailableError,
    InvalidCatalogError,
    TableNameTakenError,
)
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.catalogs.unity import UnityCatalog
from airflow_delta.core import DeltaLog
from tests.catalogs.contract import ORDERS, CatalogContract, described
from tests.catalogs.unity_readers import rows_by_name
from tests.catalogs.unity_server import Unity, serve


@pytest.fixture
def unity():
    return Unity()


@pytest.fixture
def host(unity):
    url, stop = serve(unity)
    yield url
    stop()


@pytest.fixture
def catalog(host):
    return UnityCatalog(host, token="secret-token", catalog="main")


@pytest.fixture
def root():
    return "s3://lake/sales"


class TestUnity(CatalogContract):
    pass


def test_a_name_with_its_catalog_is_the_same_table(catalog, root):
    publish(catalog, ORDERS, described(f"{root}/orders"))
    assert resolve(catalog, TableName("orders", "sales", "main")).location == f"{root}/orders"


def test_duckdb_finds_a_published_table_by_its_name_and_reads_its_rows(catalog, host, tmp_path):
    rows = [{"id": 1, "day": date(2026, 1, 1), "n": 1.5}, {"id": 2, "day": None, "n": None}]
    log = DeltaLog.for_table(str(tmp_path / "orders"))
    write_deltalake(log.table_uri, pa.Table.from_pylist(rows), partition_by=["day"])
    publish(catalog, ORDERS, TableDescription.of(log.snapshot()))
    assert rows_by_name(host, "sales.orders") == rows


def test_types_within_types_are_in_the_words_of_the_api(catalog, unity, root):
    publish(catalog, ORDERS, described(f"{root}/orders"))
    items = unity.tables["main", "sales", "orders"]["columns"]["fields"][2]["type"]
    assert (items["type"], items["contains-null"], items["element-type"]["type"]) == ("array", False, "struct")


def test_a_name_without_catalog_needs_one_in_the_settings(host):
    with pytest.raises(InvalidCatalogError, match=r"catalog\.schema\.table"):
        UnityCatalog(host, token="secret-token").find(ORDERS)


@pytest.mark.parametrize(
    ("methods", "privilege"), [((), "SELECT"), (("GET",), "CREATE TABLE")], ids=["nothing", "reading alone"]
)
def test_what_unity_refuses_names_principal_and_privilege(host, unity, root, methods, privilege):
    unity.tokens["of-alice"] = methods
    of_alice = UnityCatalog(host, token="of-alice", catalog="main", principal="alice")
    with pytest.raises(CatalogAccessDeniedError) as denied:
        publish(of_alice, ORDERS, described(f"{root}/orders"))
    assert (denied.value.principal, denied.value.privilege, denied.value.table) == ("alice", privilege, "sales.orders")
    assert "of-alice" not in str(denied.value)


def test_a_wrong_token_is_denied_and_not_shown(host):
    with pytest.raises(CatalogAccessDeniedError) as denied:
        UnityCatalog(host, token="stolen-token", catalog="main").find(ORDERS)
    assert "stolen-token" not in str(denied.value)


def test_a_server_out_of_order_can_be_tried_again(catalog, unity):
    unity.failing = 1
    with pytest.raises(CatalogUnavailableError, match="out of order"):
        catalog.find(ORDERS)
    assert catalog.find(ORDERS) is None


@pytest.fixture
def answering():
    """The URL of a server, and its handler class, whose ``status`` and ``content`` answer each request."""

    class Handler(BaseHTTPRequestHandler):
        status, content = 404, b"<html>no backend</html>"

        def answer(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(self.status)
            self.send_header("Content-Length", str(len(self.content)))
            self.end_headers()
            self.wfile.write(self.content)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815 - names of BaseHTTPRequestHandler

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", Handler
    server.shutdown()
    server.server_close()


def test_a_404_that_is_not_the_servers_own_does_not_mean_that_a_name_is_free(answering, root):
    behind_a_proxy = UnityCatalog(answering[0], catalog="main")
    for request in (behind_a_proxy.find, behind_a_proxy.drop, lambda name: publish(behind_a_proxy, name, described(root))):
        with pytest.raises(CatalogUnavailableError, match=r"status 404 at .* a proxy"):
            request(ORDERS)


def test_a_page_that_is_served_in_the_place_of_an_answer_drops_no_name(answering):
    answering[1].status, answering[1].content = 200, b"<html>sign in</html>"
    behind_a_proxy = UnityCatalog(answering[0], catalog="main")
    for request in (behind_a_proxy.drop, behind_a_proxy.find, behind_a_proxy.default_location):
        with pytest.raises(CatalogRequestError, match="not a JSON object"):
            request(ORDERS)


def test_a_server_without_this_api_does_not_take_the_request(answering):
    answering[1].content = b'{"error": {"type": "NotFoundException", "message": "no such endpoint", "code": 404}}'
    with pytest.raises(CatalogRequestError, match="no such endpoint"):
        UnityCatalog(answering[0], catalog="main").find(ORDERS)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b'{"error_code": "ENDPOINT_NOT_FOUND"}', "ENDPOINT_NOT_FOUND status 404"),
        (b'{"error_code": "ENDPOINT_NOT_FOUND", "message": null}', "ENDPOINT_NOT_FOUND status 404"),
        (b'{"error_code": "FEATURE_DISABLED", "message": "not on this metastore"}', "FEATURE_DISABLED not on this metastore"),
    ],
)
def test_a_404_in_the_form_of_unitys_other_apis_is_final_and_shows_its_code(answering, root, content, shown):
    answering[1].content = content
    of_other_form = UnityCatalog(answering[0], catalog="main")
    for request in (of_other_form.find, of_other_form.drop, lambda name: publish(of_other_form, name, described(root))):
        with pytest.raises(CatalogRequestError) as refused:
            request(ORDERS)
        assert refused.value.detail == shown
        assert not refused.value.retryable


def test_columns_of_types_within_types_beyond_all_use_are_left_to_the_log(answering):
    kind = b'{"type":' * 600 + b'"long"' + b"}" * 600
    answering[1].status, answering[1].content = 200, b'{"metadata": {"location": "s3://lake/orders", "columns": %s}}' % kind
    found = UnityCatalog(answering[0], catalog="main").find(ORDERS)
    assert (found.location, found.schema) == ("s3://lake/orders", None)


def test_an_answer_without_the_table_that_was_made_is_said(answering, root):
    answering[1].status, answering[1].content = 200, b"{}"
    with pytest.raises(CatalogRequestError, match="no metadata"):
        UnityCatalog(answering[0], catalog="main").create(ORDERS, described(root))


def test_a_server_that_is_not_there_can_be_tried_again():
    gone = UnityCatalog("http://127.0.0.1:1", token="secret-token", catalog="main")
    gone._pool.connection_pool_kw["retries"] = False
    with pytest.raises(CatalogUnavailableError) as unavailable:
        gone.find(ORDERS)
    assert unavailable.value.retryable
    assert "secret-token" not in str(unavailable.value)


def test_a_token_with_a_line_end_is_refused_and_not_shown(host):
    with pytest.raises(InvalidCatalogError, match="visible ASCII") as refused:
        UnityCatalog(host, token="secret-token\n")
    assert "secret-token" not in str(refused.value)


@pytest.mark.parametrize("host", ["http://unity.example", "https://user:pw@unity.example", "unity.example", "file:///x"])
def test_a_token_goes_to_no_host_without_tls(host):
    with pytest.raises(InvalidCatalogError) as refused:
        UnityCatalog(host, token="secret-token")
    assert "pw" not in str(refused.value)


def test_a_name_that_cannot_be_moved_stays_that_of_its_table(catalog, unity, root):
    before = publish(catalog, ORDERS, described(f"{root}/orders"))
    server = dict(unity.tables["main", "sales", "orders"])
    unity.forbidden = {f"{root}/elsewhere"}
    with pytest.raises(CatalogAccessDeniedError):
        publish(catalog, ORDERS, described(f"{root}/elsewhere", table_id="another"), relocate=True)
    assert resolve(catalog, ORDERS) == replace(before, version=None)
    made_anew = {"etag", "table-uuid", "created-time", "updated-time", "last-commit-version"}
    kept = {key: value for key, value in server.items() if key not in made_anew}
    assert {key: value for key, value in unity.tables["main", "sales", "orders"].items() if key not in made_anew} == kept


def test_a_managed_table_is_never_moved(catalog, unity, root):
    publish(catalog, ORDERS, described(f"{root}/orders"))
    unity.tables["main", "sales", "orders"]["table-type"] = "MANAGED"
    with pytest.raises(TableNameTakenError):
        publish(catalog, ORDERS, described(f"{root}/elsewhere"), relocate=True)


def test_a_name_with_slashes_cannot_leave_its_path(catalog, unity):
    assert catalog.find(TableName("a?b#c%2e", "sales")) is None
    assert unity.requests[-1][1].endswith("/tables/a%3Fb%23c%252e")
