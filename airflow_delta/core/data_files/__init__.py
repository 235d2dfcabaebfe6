"""Data files: reading and writing the Parquet files with the table's rows as Arrow data, and their statistics.

Runs on the driver and in the Python workers of Spark's executors, so it depends on neither the log nor Spark.
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
