"""Merge the rows of a source into a Delta table.

By hand: ``spark-submit delta_merge.py --spec @merge.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("merge"))
