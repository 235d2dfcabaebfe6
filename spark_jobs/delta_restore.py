"""Make an older version of a Delta table the newest one.

By hand: ``spark-submit delta_restore.py --spec @restore.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("restore"))
