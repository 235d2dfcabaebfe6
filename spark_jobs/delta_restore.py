"""Restore a Delta table to an earlier version or timestamp.

By hand: ``spark-submit delta_restore.py --spec @restore.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("restore"))
