"""Load the files below a path that a Delta table has not loaded yet.

By hand: ``spark-submit delta_copy_into.py --spec @copy.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("copy_into"))
