"""Observing tasks and tables: links and pages, metrics, alerts, lineage."""

import airflow_delta.airflow_extra  # noqa: F401
