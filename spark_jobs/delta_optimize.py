"""Rewrite the small files of a Delta table into larger ones.

By hand: ``spark-submit delta_optimize.py --spec @optimize.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("optimize"))
