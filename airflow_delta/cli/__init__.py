"""The command line ``airflow-delta``: a person's way to a table, without Airflow and without Spark."""
