"""What the pages need of Airflow's API server, none of which Airflow documents for plugins: all of it, and none anywhere else.

A release of Airflow may move any of it: then the plugin switches the pages off, and ``tests/observe/www/test_airflow_api.py``
fails with the name that moved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag, requires_access_view
from airflow.models.dag import DagModel
from airflow.models.xcom import XComModel

__all__ = [
    "GetUserDep",
    "SessionDep",
    "XComModel",
    "dag_ids_readable_by",
    "requires_plugins",
    "requires_xcoms",
    "xcom_access_of",
]

requires_xcoms: Callable[..., Any] = requires_access_dag("GET", DagAccessEntity.XCOM)
"""The dependency of a route that shows XComs of the DAG in its path."""

requires_plugins: Callable[..., Any] = requires_access_view(AccessView.PLUGINS)
"""The dependency of a route for those who may see plugins."""


def dag_ids_readable_by(user: Any) -> set[str]:
    """The DAGs that a user may see."""
    return get_auth_manager().get_authorized_dag_ids(user=user, method="GET")


def xcom_access_of(user: Any) -> Callable[[str], bool]:
    """Whether the user may read the XComs of a DAG, as a function of its id."""
    manager = get_auth_manager()

    @cache
    def may_read(dag_id: str) -> bool:
        has_teams = any(field.name == "team_name" for field in fields(DagDetails))  # from 3.2 on
        team = {"team_name": DagModel.get_team_name(dag_id)} if has_teams else {}
        details = DagDetails(id=dag_id, **team)
        return manager.is_authorized_dag(method="GET", user=user, access_entity=DagAccessEntity.XCOM, details=details)

    return may_read
