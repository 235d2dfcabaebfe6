"""The only module of the pages that imports from Airflow's API server, which Airflow does not document for plugins.

A release of Airflow may move any of these names: then the plugin switches the pages off, and
``tests/observe/www/test_airflow_api.py`` fails with the name that moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models.dag import DagModel
from airflow.models.xcom import XComModel

from airflow_delta.hooks.airflow_features import AIRFLOW_VERSION

__all__ = ["GetUserDep", "SessionDep", "XComModel", "dag_ids_with_xcoms_for", "requires_dags", "requires_xcoms"]

requires_xcoms: Callable[..., Any] = requires_access_dag("GET", DagAccessEntity.XCOM)
"""The dependency of a route that shows XComs of the DAG in its path."""

requires_dags: Callable[..., Any] = requires_access_dag("GET")
"""The dependency of a route for users who may see DAGs; ``dag_ids_with_xcoms_for`` says which DAGs."""

_HAS_TEAMS = [*map(int, AIRFLOW_VERSION.split(".")[:2])] >= [3, 2]  # 3.1 has the field, but no way to look up teams


def dag_ids_with_xcoms_for(user: Any) -> set[str]:
    """Ids of the DAGs that a user may see and whose XComs the user may read."""
    manager = get_auth_manager()
    found = manager.get_authorized_dag_ids(user=user, method="GET")
    teams = DagModel.get_dag_id_to_team_name_mapping(list(found)) if _HAS_TEAMS else {}

    def may_read(dag_id: str) -> bool:
        team = {"team_name": teams.get(dag_id)} if _HAS_TEAMS else {}
        details = DagDetails(id=dag_id, **team)
        return manager.is_authorized_dag(method="GET", user=user, access_entity=DagAccessEntity.XCOM, details=details)

    return {dag_id for dag_id in found if may_read(dag_id)}
