"""The command line ``airflow-delta``, without Airflow and without Spark."""
