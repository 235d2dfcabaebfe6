"""Delete what the log of a Delta table no longer needs.

By hand: ``spark-submit delta_clean_up_log.py --spec @clean_up_log.json``; the form of the file stands in
airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("clean_up_log"))
