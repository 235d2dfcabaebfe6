"""Pages of the Airflow API server: tables as tasks reported them. Nothing here reads storage or takes a URI from a request."""
