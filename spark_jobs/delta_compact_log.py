"""Write a log compaction file of a Delta table: consecutive commits as one file.

By hand: ``spark-submit delta_compact_log.py --spec @compact_log.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("compact_log"))
