"""What operators need from Airflow: connections, the task's idempotency token, retry policy, XComs."""
