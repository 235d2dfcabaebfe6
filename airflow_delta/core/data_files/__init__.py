"""Data files: the Parquet files that hold the table's rows, read and written as Arrow.

Runs on the driver and in the Python workers of Spark's executors, so it knows neither the log nor Spark.
"""

from airflow_delta.core.data_files.conform import conform
from airflow_delta.core.data_files.reader import ROW_INDEX, open_data_file

__all__ = ["ROW_INDEX", "conform", "open_data_file"]
