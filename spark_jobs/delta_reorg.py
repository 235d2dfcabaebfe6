"""Rewrite the files of a Delta table that still hold deleted rows or dropped columns.

By hand: ``spark-submit delta_reorg.py --spec @reorg.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("reorg"))
