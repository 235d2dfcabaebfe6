"""Delete rows of a Delta table.

By hand: ``spark-submit delta_delete.py --spec @delete.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("delete"))
