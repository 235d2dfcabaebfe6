"""Convert a directory of Parquet files to a Delta table, in place.

By hand: ``spark-submit delta_convert.py --spec @convert.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("convert"))
