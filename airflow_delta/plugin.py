"""The Airflow plugin: macros and the listener in every process, the web pages in the API server."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from airflow.providers.common.compat.sdk import AirflowPlugin

from airflow_delta.macros import MACROS
from airflow_delta.observe import listener

log = logging.getLogger(__name__)


class DeltaPlugin(AirflowPlugin):
    """Macros, metrics of Delta tasks, and the web pages of Delta tables."""

    name = "delta"
    listeners = [listener]  # noqa: RUF012 - declared by Airflow, as below
    macros = MACROS

    @property
    def fastapi_apps(self) -> list[Any]:  # type: ignore[override]  # Airflow only reads it
        """The web pages; only the API server reads this and can import them. If the import fails, there are no pages."""
        try:
            pages = import_module("airflow_delta.observe.www.app")
        except Exception:
            log.exception("The pages of Delta tables are switched off")
            return []
        return [{"app": pages.app, "url_prefix": pages.PREFIX, "name": "delta"}]

    external_views = [  # noqa: RUF012
        {
            "name": "Delta tables",
            "href": "delta/tables",
            "destination": "nav",
            "category": "browse",
            "url_route": "delta-tables",
        }
    ]
