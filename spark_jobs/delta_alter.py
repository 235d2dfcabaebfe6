"""Alter a Delta table: its columns, properties, constraints or features.

By hand: ``spark-submit delta_alter.py --spec @alter.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("alter"))
