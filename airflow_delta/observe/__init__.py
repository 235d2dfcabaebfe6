"""What shows and reports the work of tasks: links and their pages, metrics, alerts, lineage."""

import airflow_delta.airflow_extra  # noqa: F401
