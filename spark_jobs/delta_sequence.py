"""Run statements on Delta tables in order, in one session.

By hand: ``spark-submit delta_sequence.py --spec @sequence.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("sequence"))
