"""Data files: the Parquet files that hold the table's rows, read and written as Arrow, and what the log says about each.

Runs on the driver and in the Python workers of Spark's executors, so it knows neither the log nor Spark.
"""

from airflow_delta.core.data_files.conform import conform
from airflow_delta.core.data_files.reader import ROW_INDEX, open_data_file
from airflow_delta.core.data_files.statistics import RowObserver, footer_statistics
from airflow_delta.core.data_files.statistics_selection import StatisticsSelection
from airflow_delta.core.data_files.writer import DataFileWriter, WrittenFile, describe_file

__all__ = [
    "ROW_INDEX",
    "DataFileWriter",
    "RowObserver",
    "StatisticsSelection",
    "WrittenFile",
    "conform",
    "describe_file",
    "footer_statistics",
    "open_data_file",
]
