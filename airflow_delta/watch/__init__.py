"""Finding commits in the log of a table, for sensors, triggers and operators. Does not import Airflow."""
