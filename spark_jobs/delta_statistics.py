"""Compute the file statistics that the properties of a Delta table require.

By hand: ``spark-submit delta_statistics.py --spec @statistics.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("statistics"))
