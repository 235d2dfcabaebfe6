"""``python -m airflow_delta.cli``."""

from airflow_delta.cli.main import main

main()
