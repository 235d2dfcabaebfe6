"""The routes of the pages, who may see them, and their data: the XComs that tasks pushed."""

from __future__ import annotations

import logging
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request
from fastapi.responses import HTMLResponse
from sqlalchemy import select

from airflow_delta.observe.links import HISTORY_KEY, history_path
from airflow_delta.observe.www.airflow_api import (
    GetUserDep,
    SessionDep,
    XComModel,
    dag_ids_readable_by,
    requires_plugins,
    requires_xcoms,
    xcom_access_of,
)
from airflow_delta.observe.www.pages import history_page, nothing_page, tables_page

log = logging.getLogger(__name__)

PREFIX = "/delta"

_LARGEST_INDEX = (1 << 31) - 1  # of Airflow's column

LAST_XCOMS = 1_000
"""Most XComs that are read for the page of all tables, newest first."""

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}

# No documentation pages: they would be open to all.
app = FastAPI(title="Delta tables", docs_url=None, redoc_url=None, openapi_url=None)


@app.get("/dags/{dag_id}/tasks/{task_id}/history", dependencies=[Depends(requires_xcoms)])
def history(  # noqa: PLR0917 - FastAPI fills them by name
    request: Request,
    session: SessionDep,
    dag_id: str,
    task_id: str,
    run_id: str,
    map_index: Annotated[int, Query(ge=-1, le=_LARGEST_INDEX)] = -1,
) -> HTMLResponse:
    """The history of the table that a task worked on, for those who may read the DAG's XComs."""
    query = select(XComModel).where(
        XComModel.key == HISTORY_KEY,
        XComModel.dag_id == dag_id,
        XComModel.task_id == task_id,
        XComModel.run_id == run_id,
        XComModel.map_index == map_index,
    )
    payload = _payload(session.scalars(query).first())
    if payload is None:
        return HTMLResponse(nothing_page("This task run has reported no table."), status_code=404, headers=_HEADERS)
    return HTMLResponse(history_page(payload, root=_root(request)), headers=_HEADERS)


@app.get("/tables", dependencies=[Depends(requires_plugins)])
def tables(request: Request, session: SessionDep, user: GetUserDep) -> HTMLResponse:
    """All tables that tasks reported lately, as last reported; only by DAGs whose XComs the user may read."""
    may_read = xcom_access_of(user)
    query = (
        select(XComModel)
        .where(XComModel.key == HISTORY_KEY, XComModel.dag_id.in_(dag_ids_readable_by(user)))
        .order_by(XComModel.timestamp.desc())
        .limit(LAST_XCOMS)
    )
    found: dict[str, dict[str, Any]] = {}
    for row in session.scalars(query):
        payload = _payload(row) if may_read(row.dag_id) else None
        table = None if payload is None else payload.get("table")
        if payload is not None and isinstance(table, str):
            found.setdefault(table, payload | {"href": f"{_root(request)}/{history_path(row)}"})
    return HTMLResponse(tables_page(found[table] for table in sorted(found)), headers=_HEADERS)


def _payload(row: XComModel | None) -> dict[str, Any] | None:
    """The value of an XCom; None where it cannot be read here, as with an XCom backend that keeps values elsewhere.

    Any DAG author may push any XCom under our key: one that cannot be read must not break the page of all tables.
    """
    try:
        value = None if row is None else XComModel.deserialize_value(row)
    except Exception:  # noqa: BLE001 - a backend, and whatever an author made it hold
        log.warning("An XCom %s of the DAG %s cannot be read", HISTORY_KEY, getattr(row, "dag_id", None))
        return None
    return value if isinstance(value, dict) else None


def _root(request: Request) -> str:
    return str(request.scope.get("root_path", "")).removesuffix(PREFIX)
