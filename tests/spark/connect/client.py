"""Runs every statement over Spark Connect in a process as on a machine with only pyspark-client; prints the results as JSON.

Modules that only pyspark has, and Java, are hidden.
"""

import json
import sys
from importlib.abc import MetaPathFinder

CLASSIC = ("py4j", "pyspark.core", "pyspark.sql.classic", "pyspark.context", "pyspark.rdd", "pyspark.shell")


class NotInstalled(MetaPathFinder):
    """An import hook that hides the modules of classic Spark."""

    def find_spec(self, name, path=None, target=None):
        if any(name == module or name.startswith(f"{module}.") for module in CLASSIC):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, NotInstalled())

from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402, N812

from airflow_delta.core.delta_log import DeltaLog  # noqa: E402
from airflow_delta.core.statements import DeleteStatement  # noqa: E402
from airflow_delta.jobs.run import run  # noqa: E402
from airflow_delta.jobs.spec import JobSpec  # noqa: E402
from airflow_delta.shipping.connect import add_code  # noqa: E402
from airflow_delta.spark import DeltaTable, delta_writer  # noqa: E402
from airflow_delta.spark.change_feed.read import read_changes  # noqa: E402
from airflow_delta.spark.io import small_work  # noqa: E402


def rows(frame):
    return sorted(map(list, frame.collect()))


def every_statement(spark, place):
    """For every statement, what it left in the table or returned."""
    found = {}

    def table():
        return DeltaTable.forPath(spark, place)

    def note(name, value=None):
        found[name] = rows(table().toDF()) if value is None else value

    builder = DeltaTable.create(spark).location(place).addColumn("id", "BIGINT").addColumn("name", "STRING")
    builder = builder.addColumn("half", "BIGINT", generatedAlwaysAs="id div 2").partitionedBy("half")
    builder.property("delta.enableChangeDataFeed", "true").execute()
    DeltaLog.for_table(place).alter().add_constraint("known", "name <> 'nobody'")
    names = spark.createDataFrame([(1, "tit"), (2, "wren"), (3, "rook"), (4, "swan")], "id BIGINT, name STRING")
    delta_writer(names).mode("append").save(place)
    note("write")
    table().update(F.col("id") == 1, {"name": F.concat(F.col("name"), F.lit("'s nest"))})
    note("update")
    source = spark.createDataFrame([(2, "wren of 2"), (9, "owl")], "id BIGINT, name STRING").alias("news")
    merge = table().alias("birds").merge(source, F.col("birds.id") == F.col("news.id"))
    merge = merge.whenMatchedUpdate(F.col("news.id") > 1, {"name": F.upper(F.col("news.name"))})
    merge = merge.whenNotMatchedInsert(values={"id": "news.id", "name": "news.name"})
    here, small_work.MOST_BYTES = small_work.MOST_BYTES, -1  # as if the work were large: by Python workers
    note("merge result", rows(merge.whenNotMatchedBySourceDelete(F.col("birds.name") == "swan").execute()))
    small_work.MOST_BYTES = here
    note("merge")
    birds = table()
    shown = birds.toDF()
    birds.delete(shown["id"] == 3)
    note("delete")
    run(spark, JobSpec(statement=DeleteStatement(table=place, where="id = 9")))
    note("job")
    delta_writer(spark.createDataFrame([(0, "kite")], "id BIGINT, name STRING")).mode("append").save(place)
    note("optimize", rows(table().optimize().executeZOrderBy("id").select("metrics.numFilesRemoved")))
    DeltaLog.for_table(place).checkpoint()
    note("checkpoint", DeltaLog.for_table(place).snapshot().version)
    note("changes", rows(read_changes(spark, DeltaLog.for_table(place), 3, 3).select("id", "name", "_change_type")))
    note("history", [operation for [operation] in table().history().orderBy("version").select("operation").collect()])
    table().restoreToVersion(2)
    note("restore")
    table().clone(f"{place}-clone", isShallow=True)
    note("clone", rows(DeltaTable.forPath(spark, f"{place}-clone").toDF()))
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    table().vacuum(0)
    note("vacuum")
    note("where the code is", workers_code(spark))
    return found


def workers_code(spark):
    """The folder or archive from which a worker imports this package."""

    def look(batches):
        import pyarrow as pa  # noqa: PLC0415

        import airflow_delta  # noqa: PLC0415 - in the worker

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"place": [airflow_delta.__file__]})

    [[place], *_] = spark.range(1).mapInArrow(look, "place STRING").collect()
    return place


if __name__ == "__main__":
    address, place = sys.argv[1:]
    session = SparkSession.builder.remote(address).getOrCreate()
    add_code(session)
    sys.stdout.write(json.dumps(every_statement(session, place)))
    session.stop()
