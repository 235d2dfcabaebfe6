"""Which filesystems the JVM can reach."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.spark.io.data_paths import hadoop_uri


def hadoop_knows(spark: SparkSession, uri: str) -> bool:
    """Whether Hadoop has a class for the filesystem of this URI; one that it only has the name of is not known."""
    jvm, configuration = spark.sparkContext._jvm, spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - the only way
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme_of(hadoop_uri(uri)), configuration)
    except Py4JJavaError:
        return False
    return True
