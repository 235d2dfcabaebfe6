"""Do the maintenance that is due on a Delta table: small files, statistics, vacuum, checkpoint, log.

By hand: ``spark-submit delta_maintenance.py --spec @maintenance.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("maintenance"))
