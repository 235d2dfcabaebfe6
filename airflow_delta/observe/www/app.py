"""The routes of the pages: access checks, and data from the XComs that tasks have pushed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Path, Query, Request
from fastapi.responses import HTMLResponse

from airflow_delta.observe.www.airflow_api import GetUserDep, SessionDep, dag_ids_with_xcoms_for, requires_dags, requires_xcoms
from airflow_delta.observe.www.conflicts import conflicts
from airflow_delta.observe.www.pages import (
    CONTENT_SECURITY_POLICY,
    conflicts_page,
    history_page,
    nothing_page,
    table_page,
    tables_page,
)
from airflow_delta.observe.www.reports import (
    Run,
    histories,
    latest_reports,
    lost_conflicts,
    reports_of_table,
    reports_with_conflicts,
)
from airflow_delta.observe.www.table import chosen_runs
from airflow_delta.observe.www.tables import table_rows

PREFIX = "/delta"

_LARGEST_INDEX = (1 << 31) - 1  # limit of Airflow's column
_LARGEST_VERSION = (1 << 63) - 1

_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}

# No documentation pages, as these would be open to everyone.
app = FastAPI(title="Delta tables", docs_url=None, redoc_url=None, openapi_url=None)

Sort = Literal["table", "version", "rows", "size", "files", "small", "written", "health"]


@app.get("/tables", dependencies=[Depends(requires_dags)])
def tables(  # noqa: PLR0917 - FastAPI fills them by name
    request: Request,
    session: SessionDep,
    user: GetUserDep,
    search: Annotated[str, Query(max_length=500)] = "",
    sort: Sort = "written",
    page: Annotated[int, Query(ge=1, le=_LARGEST_INDEX)] = 1,
) -> HTMLResponse:
    """The page of all tables that were reported by DAGs which the user may read."""
    dag_ids = dag_ids_with_xcoms_for(user)
    rows = table_rows(latest_reports(session, dag_ids), dag_ids)
    return _page(tables_page(rows, root=_root(request), search=search, sort=sort, page=page))


@app.get("/tables/{identifier}", dependencies=[Depends(requires_dags)])
def table(
    request: Request,
    session: SessionDep,
    user: GetUserDep,
    identifier: Annotated[str, Path(pattern="^[0-9a-f]{16}$")],
    before: Annotated[int | None, Query(ge=0, le=_LARGEST_VERSION)] = None,
) -> HTMLResponse:
    """The page of one table, from reports of DAGs which the user may read."""
    dag_ids = dag_ids_with_xcoms_for(user)
    reports = reports_of_table(session, dag_ids, identifier)
    if not reports:
        return _page(nothing_page("No task that you may see has reported this table.", root=_root(request)), status=404)
    name = reports[0].table
    payloads = [found for found in histories(session, chosen_runs(reports)) if found.get("table") == name]
    return _page(table_page(reports, payloads, dag_ids, root=_root(request), before=before))


@app.get("/conflicts", dependencies=[Depends(requires_dags)])
def all_conflicts(request: Request, session: SessionDep, user: GetUserDep) -> HTMLResponse:
    """The page of the conflicts of DAGs that the user may read."""
    dag_ids = dag_ids_with_xcoms_for(user)
    found = conflicts(reports_with_conflicts(session, dag_ids), lost_conflicts(session, dag_ids), dag_ids)
    return _page(conflicts_page(found, root=_root(request)))


@app.get("/dags/{dag_id}/tasks/{task_id}/history", dependencies=[Depends(requires_xcoms)])
def history(  # noqa: PLR0917 - FastAPI fills them by name
    request: Request,
    session: SessionDep,
    user: GetUserDep,
    dag_id: str,
    task_id: str,
    run_id: str,
    map_index: Annotated[int, Query(ge=-1, le=_LARGEST_INDEX)] = -1,
) -> HTMLResponse:
    """The page with the history of a task's table, for users who may read the DAG's XComs."""
    payload: Any = next(iter(histories(session, [Run(dag_id, task_id, run_id, map_index)])), None)
    if payload is None:
        return _page(nothing_page("This task run has reported no table.", root=_root(request)), status=404)
    return _page(history_page(payload, root=_root(request), dag_ids=dag_ids_with_xcoms_for(user)))


def _page(html: str, *, status: int = 200) -> HTMLResponse:
    return HTMLResponse(html.encode("utf-8", "replace"), status_code=status, headers=_HEADERS)


def _root(request: Request) -> str:
    return str(request.scope.get("root_path", "")).removesuffix(PREFIX)
