"""Resolve the versions of Delta tables that a run reads, and protect them from vacuums.

By hand: ``spark-submit delta_pin.py --spec @pin.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("pin"))
