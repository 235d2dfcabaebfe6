"""Which sink takes the rows of which table."""

from types import SimpleNamespace

import pytest

from airflow_delta.spark.io.row_sink import suits_jvm_sink


@pytest.mark.parametrize(
    ("uri", "is_jvms"),
    [
        ("/lake/t", True),
        ("file:///lake/t", True),
        ("hdfs://name-node/t", True),
        ("viewfs://cluster/t", True),
        ("s3://bucket/t", False),
        ("gs://bucket/t", False),
        ("abfss://c@account.dfs.core.windows.net/t", False),
    ],
)
def test_spark_writes_what_its_hadoop_reaches_and_workers_write_the_rest(spark, uri, is_jvms):
    assert suits_jvm_sink(spark, SimpleNamespace(table_uri=uri, storage_options={})) is is_jvms


def test_with_a_connector_spark_writes_to_s3_itself_unless_the_table_has_options_that_it_does_not_know(spark):
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    before = configuration.get("fs.s3a.impl")
    configuration.set("fs.s3a.impl", "org.apache.hadoop.fs.LocalFileSystem")  # any class that is there
    try:
        for scheme in ("s3", "s3a"):
            assert suits_jvm_sink(spark, SimpleNamespace(table_uri=f"{scheme}://bucket/t", storage_options={}))
            assert not suits_jvm_sink(spark, SimpleNamespace(table_uri=f"{scheme}://bucket/t", storage_options={"key": "k"}))
    finally:
        configuration.set("fs.s3a.impl", before)
