"""Write a manifest of the files of a Delta table, for readers that do not support Delta.

By hand: ``spark-submit delta_manifest.py --spec @manifest.json``; the form of the file stands in airflow_delta.jobs.spec.
"""

import sys

from airflow_delta.jobs.main import main

if __name__ == "__main__":
    sys.exit(main("manifest"))
