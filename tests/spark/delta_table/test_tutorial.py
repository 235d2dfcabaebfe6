"""A script in the manner of Delta Lake's tutorials, run with only its imports changed."""

import pytest
from deltalake import DeltaTable as ReferenceTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

# The imports of the script. Before: from delta import configure_spark_with_delta_pip, from delta.tables import DeltaTable.
from airflow_delta.spark import DeltaTable, configure_spark_with_delta_pip


def tutorial(path):
    """The script: a table is written, updated, merged into and read, at its old version too."""
    builder = (
        SparkSession.builder.appName("tutorial")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    )
    spark = configure_spark_with_delta_pip(builder).getOrCreate()

    spark.range(0, 5).write.format("delta").mode("overwrite").save(path)
    seen = [spark.read.format("delta").load(path).count()]
    spark.range(5, 10).write.format("delta").mode("overwrite").save(path)

    delta_table = DeltaTable.forPath(spark, path)
    delta_table.update(condition=F.expr("id % 2 == 0"), set={"id": F.expr("id + 100")})
    delta_table.delete(condition=F.expr("id % 2 == 0"))
    new_data = spark.range(0, 20)
    (
        delta_table.alias("oldData")
        .merge(new_data.alias("newData"), "oldData.id = newData.id")
        .whenMatchedUpdate(set={"id": F.col("newData.id")})
        .whenNotMatchedInsert(values={"id": F.col("newData.id")})
        .execute()
    )
    seen.append(delta_table.toDF().count())
    seen.append(spark.read.format("delta").option("versionAsOf", 0).load(path).count())
    seen.append(delta_table.history().count())
    return seen


@pytest.mark.slow
@pytest.mark.classic(reason="the tutorial makes its session of settings that only a classic one takes")
def test_a_tutorial_of_delta_spark_runs_with_only_its_imports_changed(spark, table):
    assert tutorial(table) == [5, 20, 5, 5]
    assert sorted(ReferenceTable(table).to_pyarrow_table()["id"].to_pylist()) == list(range(20))
    assert spark.range(1).count() == 1
