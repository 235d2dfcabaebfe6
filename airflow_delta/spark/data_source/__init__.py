"""``spark.read.format("delta")`` and ``df.write.format("delta")``, over PySpark's Python data source API.

The API offers readers no column pruning, and writers no partitioning and no save modes except append and overwrite, and every
row passes through a Python worker: ``DeltaTable.toDF`` and ``airflow_delta.spark.write`` are faster and can do more. Whatever
would not be safe is refused, as far as it can be detected. A writer cannot find out where its rows come from, so write rows
that are read from the same table with ``delta_writer`` or a MERGE, which notice if others change the table meanwhile.
"""

from airflow_delta.spark.data_source.registration import configure_spark_with_delta_pip, register
from airflow_delta.spark.data_source.source import DeltaDataSource

__all__ = ["DeltaDataSource", "configure_spark_with_delta_pip", "register"]
