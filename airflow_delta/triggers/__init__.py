"""Waiting for Delta tables without a worker."""

import airflow_delta.airflow_extra  # noqa: F401
