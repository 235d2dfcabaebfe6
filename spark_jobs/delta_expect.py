"""Check expectations on the rows of a Delta table.

By hand: ``spark-submit delta_expect.py --spec @expect.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("expect"))
