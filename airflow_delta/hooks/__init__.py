"""What the operators ask of Airflow: the Spark connection, the task's token."""
