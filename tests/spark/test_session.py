"""What a statement sets in a session, beside what other threads of the session do."""

from threading import Event, Thread
from types import SimpleNamespace

import pytest
from pyspark import RDD
from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.spark import DeltaTable, delta_writer, session
from airflow_delta.spark.jvm import copied_session
from airflow_delta.spark.session import holds, query, result_bytes, task_memory
from airflow_delta.spark.streaming import DeltaSink
from tests.spark.needs import looks_into_the_jvm


@pytest.mark.parametrize("end", ["", ";", " ; -- all of {them}", ";\n; /* all; */ ;\n", " -- all; of them", "; -- ;"])
def test_semicolons_and_comments_may_stand_behind_a_query(spark, end):
    text = f"SELECT count(*) FROM rows WHERE ';' = concat(';') -- a ; b\n{end}"
    assert query(spark, text, {"rows": spark.range(2)}).first()[0] == 2


def test_two_threads_that_give_one_name_to_different_rows_see_their_own(spark, monkeypatch):
    found, named = {}, Event()

    def count(name, rows):
        found[name] = query(spark, "SELECT count(*) FROM rows", {"rows": rows}).first()[0]

    other = Thread(target=count, args=("other", spark.range(2)))
    unpatched = type(spark).sql

    def sql_beside_other(self, *texts, **arguments):
        if other.ident is None:
            other.start()
            named.wait(5)  # until it has named its rows, unless it waits for this thread
        else:
            named.set()
        return unpatched(self, *texts, **arguments)

    monkeypatch.setattr(type(spark), "sql", sql_beside_other)
    count("this", spark.range(1))
    other.join()
    assert found == {"this": 1, "other": 2}
    assert not spark.catalog.tableExists("rows")


def read_by_query(spark, rows, table):
    query(spark, "SELECT * FROM rows", {"rows": rows}).collect()


def write_rows(spark, rows, table):
    delta_writer(rows).save(table)


def merge_rows(spark, rows, table):
    delta_writer(rows.limit(0)).save(table)
    DeltaTable.forPath(spark, table).alias("t").merge(rows.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()


def sink_rows(spark, rows, table):
    delta_writer(rows.limit(0)).save(table)
    DeltaSink(table, query_id="query")(rows, 0)


@pytest.mark.parametrize("use", [read_by_query, write_rows, merge_rows, sink_rows])
def test_rows_that_the_user_has_cached_stay_cached_behind_a_statement_that_uses_them(spark, table, use):
    rows = spark.range(9).withColumn("drawn", F.rand()).cache()
    drawn = rows.collect()
    use(spark, rows, table)
    assert rows.storageLevel.useMemory
    assert rows.collect() == drawn
    rows.unpersist()


def test_what_is_cached_by_the_name_of_a_view_stays_cached_behind_a_query_with_a_view_of_this_name(spark):
    spark.range(3).createOrReplaceTempView("orders")
    spark.catalog.cacheTable("orders")
    assert query(spark, "SELECT count(*) FROM orders", {"orders": spark.range(5)}).first()[0] == 5
    assert spark.catalog.isCached("orders")
    assert spark.table("orders").count() == 3
    spark.catalog.uncacheTable("orders")
    spark.catalog.dropTempView("orders")


@looks_into_the_jvm
def test_an_observation_of_a_source_counts_its_rows(spark, table):
    delta_writer(spark.range(3)).save(table)
    observation = Observation()
    source = spark.range(10).observe(observation, F.count(F.lit(1)).alias("n")).alias("s")
    DeltaTable.forPath(spark, table).alias("t").merge(source, "t.id = s.id").whenNotMatchedInsertAll().execute()
    assert observation.get == {"n": 10}


@looks_into_the_jvm
def test_rows_of_the_user_s_rdds_stay_in_the_user_s_session(spark):
    before = RDD.toDF  # which knows the session
    copied_session(spark)
    assert RDD.toDF is before


@pytest.mark.parametrize(
    ("settings", "mebibytes"),
    [
        ({"spark.master": "local[2]", "spark.driver.memory": "6g", "spark.executor.memory": "1g"}, 876),
        ({"spark.master": "local[2]"}, 108),
        ({"spark.master": "yarn", "spark.executor.memory": "4396m", "spark.executor.cores": "4"}, 307),
        ({"spark.master": "yarn", "spark.executor.memory": "4396", "spark.memory.storageFraction": "0"}, 1228),
        ({"spark.master": "yarn", "spark.executor.memory": "8gb", "spark.memory.offHeap.enabled": "true"}, 0),
        ({"spark.master": "yarn", "spark.executor.memory": "plenty"}, 0),
        ({"spark.master": "yarn", "spark.executor.memory": "200m"}, 0),
    ],
)
def test_the_memory_of_a_task_is_what_no_cached_row_and_no_other_task_takes(monkeypatch, settings, mebibytes):
    monkeypatch.setattr(session, "cores", lambda _: 2)
    assert task_memory(SimpleNamespace(conf=settings)) >> 20 == mebibytes


@pytest.mark.parametrize(
    ("allowed", "mebibytes"), [(None, 512), ("0", 512), ("32m", 16), ("1073741824", 512), ("4g", 2_048), ("unlimited", 512)]
)
def test_one_query_may_bring_half_of_what_the_session_allows(allowed, mebibytes):
    settings = {} if allowed is None else {"spark.driver.maxResultSize": allowed}
    assert result_bytes(SimpleNamespace(conf=settings)) == mebibytes << 20


def test_a_session_does_not_hold_a_setting_that_its_spark_does_not_know(spark):
    ansi = {"spark.sql.ansi.enabled": spark.conf.get("spark.sql.ansi.enabled")}
    assert holds(spark, ansi)
    assert not holds(spark, ansi | {"spark.sql.noSuchSetting": "true"})


def test_a_session_that_gives_no_answer_about_its_settings_is_an_error_not_a_missing_setting():
    def get(_setting):
        raise PySparkException("[INVALID_HANDLE.SESSION_CLOSED] The session was closed.")

    closed = SimpleNamespace(conf=SimpleNamespace(get=get))
    with pytest.raises(PySparkException, match="SESSION_CLOSED"):
        holds(closed, {"spark.sql.ansi.enabled": "true"})
