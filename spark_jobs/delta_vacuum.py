"""Delete the files that no retained version of a Delta table needs.

By hand: ``spark-submit delta_vacuum.py --spec @vacuum.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("vacuum"))
