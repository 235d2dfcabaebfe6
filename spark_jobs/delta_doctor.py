"""Report what a cluster has and lacks for Delta tables: versions, packages, filesystems, access.

By hand: ``spark-submit --py-files ARCHIVE delta_doctor.py URI``; or ``airflow-delta doctor --spark URI``.
"""

import sys

from airflow_delta.jobs.doctor import main

if __name__ == "__main__":
    sys.exit(main())
