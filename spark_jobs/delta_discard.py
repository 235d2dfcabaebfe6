"""Discard the commits that other tasks have staged for Delta tables.

By hand: ``spark-submit delta_discard.py --spec @discard.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("discard"))
