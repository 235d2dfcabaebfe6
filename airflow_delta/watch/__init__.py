"""Finding commits in the log of a table: for sensors, triggers and operators. Pure: no Airflow."""
