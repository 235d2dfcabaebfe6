"""Clone a Delta table: create one from the files of another.

By hand: ``spark-submit delta_clone.py --spec @clone.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("clone"))
