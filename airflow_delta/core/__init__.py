"""The transaction core: the Delta log, without Spark and without Airflow."""
