"""Write consecutive commits of a Delta table as one file beside them.

By hand: ``spark-submit delta_compact_log.py --spec @compact_log.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("compact_log"))
