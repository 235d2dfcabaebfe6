"""What only a session in this process's JVM can do."""

import pytest

from airflow_delta.spark.errors import SparkConnectUnsupportedError
from airflow_delta.spark.hadoop.table_log import table_log, table_place
from airflow_delta.spark.io.engines import Engine, engine_for

SESSION = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()


@pytest.mark.parametrize("reach", [table_log, table_place])
def test_a_table_on_hdfs_is_refused_before_anything_is_done(reach):
    with pytest.raises(SparkConnectUnsupportedError) as refused:
        reach(SESSION, "hdfs://name-node/lake/t")
    assert refused.value.feature == "reaching hdfs://name-node/lake/t through Hadoop"
    assert "not possible over Spark Connect. Remedy: keep the table in an object store" in str(refused.value)


@pytest.mark.parametrize(("uri", "engine"), [("/lake/t", Engine.JVM), ("s3://lake/t", Engine.ARROW)])
def test_the_server_reads_what_every_hadoop_knows_and_its_workers_the_rest(uri, engine):
    assert engine_for(SESSION, [uri], {}) is engine
