"""What operators need from Airflow: connections, the task's idempotency token, retry policy, XComs."""

import airflow_delta.airflow_extra  # noqa: F401
