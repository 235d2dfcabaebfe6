"""Who sees what: rows of DAGs that a user may not read are not shown, not counted, and not named in conflicts."""

import pytest
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi.testclient import TestClient

from airflow_delta.observe.report import table_id
from tests.observe.www import seeded
from tests.observe.www.seeded import CONFLICT_KEY, HISTORY_KEY, REPORT_KEY, report, reports

ORDERS, SECRET, MARKUP = "s3://lake/orders", "s3://lake/salaries", "s3://lake/<script>alert(1)</script>"
MET = {"version": 6, "operation": "UPDATE", "rule": "DELTA_CONCURRENT_APPEND", "lost_ms": 61_000}
HIDDEN_RUN = {"dag_id": "payroll", "task_id": "pay", "run_id": "scheduled__9"}
PAGES = ["/delta/tables", "/delta/conflicts", f"/delta/tables/{table_id(ORDERS)}"]


@pytest.fixture(scope="module")
def server(airflow_database):
    """Airflow's API server with reports of two DAGs: ``sales``, and ``payroll``, which conflicted with it."""
    seeded.add_dags(["sales", "payroll"])
    of_payroll = {"dag_id": "payroll", "task_id": "pay"}
    commits = [
        {"version": 7, "timestamp": 1, "operation": "MERGE", "run": {"dag_id": "sales", "task_id": "load", "run_id": "r"}},
        {"version": 6, "timestamp": 1, "operation": "UPDATE", "run": HIDDEN_RUN, "operationMetrics": {"salaries": "1"}},
        {"version": 5, "timestamp": 1, "operation": "STREAMING UPDATE", "engineInfo": "Kafka-Connect", "run": {}},
    ]
    pin = {"version": 6, **HIDDEN_RUN, "expires": 1 << 50}
    history = {"table": ORDERS, "operation": "MERGE", "detail": {"pins": [pin]}, "commits": commits}
    own = report(ORDERS, 7, dag_id="sales", conflicts=[{**MET, "run": HIDDEN_RUN}])
    lost = {"code": "DELTA_CONCURRENT_WRITE", "table": ORDERS, "winning_run": HIDDEN_RUN, "lost_ms": 2_000}
    seeded.add_xcoms(
        [
            ("sales", "load", 1, REPORT_KEY, reports(own), 1),
            ("sales", "load", 1, HISTORY_KEY, history, 1),
            ("sales", "other", 2, REPORT_KEY, reports(report(MARKUP, 3, dag_id="sales", run=2)), 2),
            ("sales", "other", 3, CONFLICT_KEY, lost, 2),
            ("payroll", "pay", 4, REPORT_KEY, reports(report(SECRET, 8, **of_payroll), report(ORDERS, 8, **of_payroll)), 0),
            ("payroll", "pay", 5, CONFLICT_KEY, {"code": "X", "table": SECRET}, 0),
        ]
    )
    yield create_app(apps="core")
    seeded.remove_xcoms()


@pytest.fixture
def client(server):
    """A viewer, who may see all DAGs."""
    session = TestClient(server, raise_server_exceptions=False)
    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="someone", role="VIEWER"))
    session.headers["Authorization"] = f"Bearer {token}"
    return session


@pytest.fixture(autouse=True)
def both(monkeypatch, server):
    """Makes only these two DAGs visible, as other tests have left DAGs."""
    monkeypatch.setattr(get_auth_manager(), "get_authorized_dag_ids", lambda **_: {"sales", "payroll"})


@pytest.fixture
def only_sales(monkeypatch, both):
    """As if no user could see the DAG ``payroll``."""
    monkeypatch.setattr(get_auth_manager(), "get_authorized_dag_ids", lambda **_: {"sales"})


def test_a_viewer_sees_the_tables_runs_and_conflicts_of_all_dags(client):
    listed, met, one = (client.get(page).text for page in PAGES)
    assert "salaries" in listed
    assert "<dd>3</dd>" in listed
    assert "payroll" in met
    assert "/dags/payroll/runs/scheduled__9/tasks/pay" in one
    assert "Kafka-Connect" in one


def test_nothing_shows_that_there_is_a_dag_which_the_user_may_not_see(client, only_sales):
    answers = {page: client.get(page) for page in PAGES}
    assert {answer.status_code for answer in answers.values()} == {200}
    for page, answer in answers.items():
        assert [word for word in ("payroll", "salaries", "scheduled__9") if word in answer.text] == [], page
    listed, met, one = (answer.text for answer in answers.values())
    assert "<dd>2</dd>" in listed  # tables
    assert "other writers" in met
    assert "1 min 1 s" in met
    assert "Kafka-Connect" in one  # which is no DAG
    assert "No version is pinned by a run that you may see" in one


def test_a_table_that_only_other_dags_reported_is_not_there(client, only_sales):
    answer = client.get(f"/delta/tables/{table_id(SECRET)}")
    assert (answer.status_code, "salaries" in answer.text) == (404, False)


def test_xcoms_that_the_user_may_not_read_are_not_shown(client, monkeypatch):
    manager = get_auth_manager()
    is_authorized = manager.is_authorized_dag

    def all_but_xcoms_of_payroll(*, access_entity=None, details=None, **arguments):
        hidden = access_entity is DagAccessEntity.XCOM and details.id == "payroll"
        return not hidden and is_authorized(access_entity=access_entity, details=details, **arguments)

    monkeypatch.setattr(manager, "is_authorized_dag", all_but_xcoms_of_payroll)
    assert "salaries" not in client.get("/delta/tables").text
    assert "payroll" not in client.get("/delta/conflicts").text


@pytest.mark.parametrize("page", PAGES)
def test_who_is_not_signed_in_or_has_no_role_is_refused(server, page):
    anonymous = TestClient(server, raise_server_exceptions=False)
    assert anonymous.get(page).status_code == 401
    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="someone", role=None))
    assert anonymous.get(page, headers={"Authorization": f"Bearer {token}"}).status_code == 403


@pytest.mark.parametrize("page", [*PAGES, f"/delta/tables/{table_id(MARKUP)}", "/delta/tables?search=%3Cscript%3E"])
def test_names_are_text_and_one_script_is_allowed(client, page):
    answer = client.get(page)
    assert answer.status_code == 200
    assert answer.text.count("<script") == 1
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert [word for word in ("http://", "https://", "@import", "url(") if word in answer.text] == []


@pytest.mark.parametrize("query", ["sort=drop", "page=0", f"page={'9' * 40}", f"search={'x' * 501}"])
def test_a_query_of_another_form_is_refused(client, query):
    assert client.get(f"/delta/tables?{query}").status_code == 422
    assert client.get("/delta/tables/..%2f..%2fetc").status_code in {404, 422}


def test_the_tables_can_be_searched_and_sorted(client):
    found = client.get("/delta/tables", params={"search": "ORD", "sort": "size"}).text
    assert "orders" in found
    assert "salaries" not in found
    assert "1 of 3 tables" in found
    assert "No table matches" in client.get("/delta/tables", params={"search": "nowhere"}).text
