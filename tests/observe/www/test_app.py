"""Who may see the pages, and that they show what a task has reported."""

import importlib
import json

import pendulum
import pyarrow as pa
import pytest
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.xcom import XComModel
from airflow.sdk import DAG
from airflow.utils.session import create_session
from deltalake import write_deltalake
from fastapi.testclient import TestClient
from sqlalchemy import update

from airflow_delta import plugin
from airflow_delta.observe.links import HISTORY_KEY
from airflow_delta.observe.report import REPORT_KEY, table_id
from airflow_delta.operators import DeltaVacuumOperator


@pytest.fixture(scope="module")
def server(airflow_database):
    """Airflow's API server with the plugins that are installed."""
    return create_app(apps="core")


@pytest.fixture
def client(server):
    """A client with the role of a user, or with none: ``client("viewer")``."""

    def make(role=None, *, anonymous=False):
        session = TestClient(server, raise_server_exceptions=False)
        if not anonymous:
            token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="someone", role=role))
            session.headers["Authorization"] = f"Bearer {token}"
        return session

    return make


@pytest.fixture
def href(run_dag, xcom, tmp_path):
    """The link of a task that has worked on a table whose name is a script."""
    table = tmp_path / "<script>"
    write_deltalake(table, pa.table({"id": [1]}))
    with DAG("health", schedule=None, start_date=pendulum.datetime(2013, 1, 1)) as dag:
        DeltaVacuumOperator(task_id="vacuum", table=str(table), engine="worker")
    dag_run = run_dag(dag, logical_date=pendulum.datetime(2013, 1, 2))
    return xcom(dag_run, "vacuum", "_link_DeltaTableHistoryLink")


def test_the_link_of_a_task_leads_to_the_history_of_its_table(client, href, tmp_path):
    answer = client("VIEWER").get(href)
    assert answer.status_code == 200
    assert "&lt;script&gt;</h1>" in answer.text
    assert answer.text.count("<script") == 1  # ours
    assert "CREATE TABLE" in answer.text or "WRITE" in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    listed = client("VIEWER").get("/delta/tables")
    assert listed.status_code == 200
    assert "&lt;script&gt;</a>" in listed.text
    page = f"/delta/tables/{table_id(str(tmp_path / '<script>'))}"
    assert f'href="{page}"' in listed.text
    table = client("VIEWER").get(page)
    assert table.status_code == 200
    assert "&lt;script&gt; <span" in table.text
    assert "another writer" in table.text  # who made the table


@pytest.mark.parametrize("page", ["/delta/dags/health/tasks/vacuum/history?run_id=r", "/delta/tables"])
def test_a_page_is_refused_without_a_name_or_without_a_right(client, page):
    assert client(anonymous=True).get(page).status_code == 401
    assert client(role=None).get(page).status_code == 403


def test_tables_of_dags_that_the_user_may_not_read_are_not_listed(client, href, monkeypatch):
    monkeypatch.setattr(get_auth_manager(), "get_authorized_dag_ids", lambda **_: {"another"})
    answer = client("VIEWER").get("/delta/tables")
    assert (answer.status_code, "&lt;script&gt;" in answer.text) == (200, False)


def test_tables_are_listed_only_for_those_who_may_read_what_tasks_reported(client, href, monkeypatch):
    """As on the page of the history: access to the DAG does not include its XComs."""
    manager = get_auth_manager()
    is_authorized = manager.is_authorized_dag

    def all_but_xcoms(*, access_entity=None, **arguments):
        return access_entity is not DagAccessEntity.XCOM and is_authorized(access_entity=access_entity, **arguments)

    monkeypatch.setattr(manager, "is_authorized_dag", all_but_xcoms)
    assert client("VIEWER").get(href).status_code == 403
    answer = client("VIEWER").get("/delta/tables")
    assert (answer.status_code, "&lt;script&gt;" in answer.text) == (200, False)


def test_a_table_cannot_be_asked_for_by_its_uri(client, href):
    answer = client("ADMIN").get("/delta/dags/health/tasks/other/history", params={"run_id": "r", "table": "/etc"})
    assert answer.status_code == 404
    assert "has reported no table" in answer.text


@pytest.mark.parametrize("page", ["docs", "redoc", "openapi.json"])
def test_there_is_nothing_beside_the_pages(client, page):
    assert client("ADMIN").get(f"/delta/{page}").status_code == 404


def test_pages_that_cannot_be_imported_are_not_there(monkeypatch):
    def fail(name):
        raise ImportError(name)

    monkeypatch.setattr(plugin, "import_module", fail)
    assert plugin.DeltaPlugin().fastapi_apps == []
    monkeypatch.setattr(plugin, "import_module", importlib.import_module)
    assert len(plugin.DeltaPlugin().fastapi_apps) == 1


DEEP = "[" * 900 + "]" * 900

SURROGATES = {"dag_id": "author", "task_id": "\ud800", "run_id": "\ud800", "map_index": -1}

ABSURD = {
    "of another form": ["no table"],
    "a text": "x",
    "a number of 5,000 digits": {"table": "absurd", "facts": {"bytes": "9" * 5_000}, "commits": [{"version": "9" * 5_000}]},
    "lone surrogates": {
        "table": "absurd\ud800",
        "facts": {"files": "\ud800"},
        "commits": [
            {
                "version": 1,
                "operation": "\ud800",
                "operationMetrics": {"\ud800": "\ud800"},
                "run": {"dag_id": "\ud800", "run_id": "\ud800", "task_id": "\ud800", "map_index": 1},
            }
        ],
    },
    "huge numbers": {
        "table": "absurd",
        "facts": {"files": 10**4_000, "version": -1},
        "commits": [{"version": 10**4_000, "timestamp": 10**400, "run": dict.fromkeys(("dag_id", "run_id", "task_id"), "x")}],
    },
    "a huge map index": {
        "table": "absurd",
        "commits": [{"run": {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": 10**4_000}}],
    },
    "no number": {"table": "absurd", "facts": {"bytes": float("nan")}, "commits": [{"timestamp": float("inf")}]},
    "no texts": {"table": {"a": 1}, "facts": [], "commits": {"a": 1}},
    "absurd reports": {
        "reports": [
            None,
            {"table": 7},
            {"table": "absurd\ud800", "version": "x", "facts": [1], "head": 3, "due": {"a": 1}, "conflicts": "none"},
            {
                "id": table_id("absurd"),
                "table": "absurd",
                "version": 10**4_000,
                "committed": True,
                "facts": {"version": -1, "bytes": 10**4_000, "files": "many", "rows": float("nan")},
                "head": {
                    "version": [],
                    "timestamp": 10**400,
                    "operation": {},
                    "run": {"dag_id": 1, "task_id": [], "run_id": {}},
                },
                "due": [[], 1, "x" * 10_000],
                "findings": {"error": "9" * 5_000},
                "conflicts": [None, {"rule": ["x"], "lost_ms": -1, "version": "\ud800", "run": []}],
                "operation": "HEALTH",
            },
        ],
        "table": "absurd",
        "operation": "HEALTH",
        "findings": [None, {"severity": {}, "text": 10**4_000}],
        "detail": {
            "sizes": {"bounds": [3, 2], "counts": ["x"]},
            "layout": [{"column": [], "files": 1, "mean": float("nan"), "most": 1, "unknown": 1}, 3],
            "maintenance": [None, {"step": [], "due": "x"}],
            "pins": [{"dag_id": "author", "task_id": "t", "run_id": "r", "version": -1}, "x"],
            "pin_files": "x",
            "protocol": "xy",
            "features": [1, "\ud800"],
            "clustered_by": "x",
        },
        "commits": [{"version": 3, "operationMetrics": [], "timestamp": "x", "run": 3}],
    },
    "lone surrogates in runs of a visible DAG": {
        "reports": [
            {
                "id": table_id("absurd"),
                "table": "absurd",
                "version": 3,
                "committed": True,
                "head": {"version": 3, "operation": "WRITE", "run": SURROGATES},
                "conflicts": [{"rule": "x", "version": 2, "run": SURROGATES}],
            }
        ],
        "table": "absurd",
        "detail": {"pins": [{**SURROGATES, "version": 1}]},
        "commits": [{"version": 3, "operation": "WRITE", "run": SURROGATES}],
    },
    "objects in place of lists": {
        "reports": [{"id": table_id("absurd"), "table": "absurd", "version": 3, "due": {"x": 1}}],
        "table": "absurd",
        "detail": {
            name: {"x": 1, "y": 2} for name in ("protocol", "features", "layout", "pins", "maintenance", "clustered_by")
        },
    },
    "deeply nested": {"table": "absurd", "facts": {"bytes": json.loads(DEEP)}, "commits": [{"operation": json.loads(DEEP)}]},
}


@pytest.fixture
def push(run_dag, xcom, tmp_path):
    """Let the author of another DAG push what he likes under our keys: ``push(value)``; the address of its page."""
    table = tmp_path / "authored"
    write_deltalake(table, pa.table({"id": [1]}))
    with DAG("author", schedule=None, start_date=pendulum.datetime(2013, 1, 1)) as dag:
        DeltaVacuumOperator(task_id="vacuum", table=str(table), engine="worker")
    page = xcom(run_dag(dag, logical_date=pendulum.datetime(2013, 1, 2)), "vacuum", "_link_DeltaTableHistoryLink")
    own = (XComModel.dag_id == "author", XComModel.key.in_([HISTORY_KEY, REPORT_KEY]))

    def pushed(value):
        with create_session() as session:
            session.execute(update(XComModel).where(*own).values(value=value))
        return page

    return pushed


def test_an_absurd_xcom_breaks_no_page(client, href, push):
    viewer, broken = client("VIEWER"), []
    unreadable = '{"__classname__": "no.such.Class", "__version__": 1, "__data__": "x"'
    texts = {f"{name}, as a text": json.dumps(value) for name, value in ABSURD.items()}
    for name, value in (ABSURD | texts | {"unreadable": unreadable}).items():
        page = viewer.get(push(value))
        others = [viewer.get(f"/delta/{other}") for other in ("tables", "conflicts", f"tables/{table_id('absurd')}")]
        statuses = {answer.status_code for answer in (page, *others)}
        if not statuses <= {200, 404} or others[0].status_code != 200 or "&lt;script&gt;</a>" not in others[0].text:
            broken.append(name)
    assert broken == []


@pytest.mark.parametrize("index", [str(1 << 31), "9" * 40, "9" * 5_000, "-2", "x"])
def test_an_index_that_no_task_has_is_refused(client, index):
    answer = client("VIEWER").get("/delta/dags/health/tasks/vacuum/history", params={"run_id": "r", "map_index": index})
    assert answer.status_code == 422
