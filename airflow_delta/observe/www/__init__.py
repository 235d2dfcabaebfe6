"""Pages of the Airflow API server: what tasks told of tables. Nothing here reads storage or takes a URI from a request."""
