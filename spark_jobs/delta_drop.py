"""Delete the files of a Delta table whose name was dropped.

By hand: ``spark-submit delta_drop.py --spec @drop.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("drop"))
