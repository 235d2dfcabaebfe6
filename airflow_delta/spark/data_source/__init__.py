"""``spark.read.format("delta")`` and ``df.write.format("delta")``, over PySpark's Python data source API.

The API gives readers no column pruning, writers no partitioning and no save mode but append and overwrite, and every row passes
through a Python worker: ``DeltaTable.toDF`` and ``airflow_delta.spark.write`` are faster and know more. What it cannot do
soundly is refused, as far as it can be detected: a writer does not learn where its rows come from, so write rows that are read
from the same table with ``delta_writer`` or a MERGE, which notice when others change the table meanwhile.
"""

from airflow_delta.spark.data_source.registration import configure_spark_with_delta_pip, register
from airflow_delta.spark.data_source.source import DeltaDataSource

__all__ = ["DeltaDataSource", "configure_spark_with_delta_pip", "register"]
