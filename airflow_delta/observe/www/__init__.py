"""Pages of the Airflow API server: tables as tasks have reported them. No code here reads storage, or a URI from a request."""
