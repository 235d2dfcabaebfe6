"""Report what a cluster has and lacks for Delta tables: versions, packages, filesystems, access.

By hand: ``spark-submit --py-files ARCHIVE delta_doctor.py URI``; or ``airflow-delta doctor --spark URI``.
"""

import sys

try:
    from airflow_delta.jobs.doctor import main
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "pyarrow":
        raise
    sys.exit(
        f"expected pyarrow, found none that {sys.executable} of the driver can import. "
        "Remedy: install it there, or name another Python of the driver by spark.pyspark.driver.python"
    )

if __name__ == "__main__":
    sys.exit(main())
