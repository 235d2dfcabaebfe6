"""Merges built as in delta-spark, under the user's own names for the two sides."""

import json
import re
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.table_changes.create import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.spark import DeltaTable
from airflow_delta.spark.dml.merge import plan as merge_plan
from airflow_delta.spark.errors import ExpressionNotTextError


@pytest.fixture
def news(spark):
    """Changes to the birds: one known, one new."""
    return spark.createDataFrame([(2, "eagle owl", 2000), (9, "tit", 11)], "id BIGINT, name STRING, grams INT")


MERGED = [(1, "wren", 9), (2, "eagle owl", 2000), (3, None, 20), (9, "tit", 11)]


def test_an_upsert_with_sql_text_and_aliases(birds, news, reference_rows):
    changed = (
        birds.alias("events")
        .merge(source=news.alias("updates"), condition="events.id = updates.id")
        .whenMatchedUpdate(set={"name": "updates.name", "grams": "updates.grams"})
        .whenNotMatchedInsert(values={"id": "updates.id", "name": "updates.name", "grams": "updates.grams"})
        .execute()
    )
    assert reference_rows() == MERGED
    assert changed.columns == ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]
    assert [tuple(row) for row in changed.collect()] == [(2, 1, 0, 1)]


def test_an_upsert_with_columns_and_aliases(birds, news, reference_rows):
    (
        birds.alias("events")
        .merge(news.alias("updates"), F.col("events.id") == F.col("updates.id"))
        .whenMatchedUpdate(
            condition=F.col("updates.grams") > F.col("events.grams"),
            set={"events.name": F.upper(F.col("updates.name")), "grams": F.col("events.grams") + F.lit(1)},
        )
        .whenNotMatchedInsert(condition=F.col("grams") < 12, values={"id": F.col("updates.id"), "name": F.lit("it's new")})
        .execute()
    )
    assert reference_rows() == [(1, "wren", 9), (2, "EAGLE OWL", 481), (3, None, 20), (9, "it's new", None)]


def test_an_upsert_of_whole_rows_with_columns_taken_from_both_frames(birds, news, reference_rows):
    known = birds.toDF()
    birds.merge(news, known["id"] == news["id"]).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert reference_rows() == MERGED


def test_sides_may_bear_each_others_names(birds, news, reference_rows):
    (
        birds.alias("source")
        .merge(news.alias("target"), "source.id = target.id")
        .whenMatchedUpdate(set={"grams": "target.grams - source.grams"})
        .execute()
    )
    assert reference_rows()[1] == (2, "owl", 2000 - 480)


def test_a_source_without_alias_is_named_by_its_columns(spark, birds, reference_rows):
    gone = spark.sql("SELECT 1L AS gone")
    birds.merge(gone, "id = gone").whenMatchedDelete("grams < 100").execute()
    assert [row[0] for row in reference_rows()] == [2, 3]


def test_rows_that_the_source_lacks_are_changed_and_deleted(birds, news, reference_rows):
    (
        birds.alias("t")
        .merge(news.alias("s"), "t.id = s.id")
        .whenNotMatchedBySourceDelete(F.col("t.grams") < 10)
        .whenNotMatchedBySourceUpdate(set={"t.name": "concat('old ', coalesce(t.name, '?'))"})
        .execute()
    )
    assert reference_rows() == [(2, "owl", 480), (3, "old ?", 20)]


@pytest.mark.parametrize(
    "condition",
    [
        lambda: "e.id = u.id AND e.grams > 0",
        lambda: "(e.id = u.id) and (`e`.grams > 0)",
        lambda: (F.col("e.id") == F.col("u.id")) & (F.col("e.grams") > 0),
        lambda: (F.col("u.id") == F.col("e.id")) & (F.lit(0) < F.col("e.grams")),
    ],
)
def test_the_keys_of_a_condition_are_recognized_however_it_is_written(birds, news, table, condition, monkeypatch):
    found = []
    parse = merge_plan.parse_condition
    monkeypatch.setattr(merge_plan, "parse_condition", lambda *arguments: found.append(parse(*arguments)) or found[-1])
    birds.alias("e").merge(news.alias("u"), condition()).whenMatchedUpdateAll().execute()
    assert [(key.column, key.other) for key in found[0].keys] == [("id", "source.id")]
    entry = DeltaLog.for_table(table).history(1)[0]
    assert "target.id" in json.loads(entry.commit_info.operation_parameters["predicate"])[0]


def test_a_name_that_means_a_struct_of_the_user_is_not_taken_for_a_side(spark, birds, reference_rows):
    rows = spark.sql("SELECT 1L AS id, named_struct('id', 3L) AS target")
    birds.merge(rows.alias("s"), "s.target.id = grams / 20 * 3 AND s.id = 1").whenMatchedUpdate(set={"name": "'hit'"}).execute()
    assert reference_rows()[2] == (3, "hit", 20)


def test_a_struct_of_columns_keeps_the_names_of_its_members(spark, table, write_rows, reference_rows):
    write_rows("SELECT 1L AS id, named_struct('b', 'old', 'x-y', 0L) AS s, array(named_struct('id', 0L)) AS l")
    rows = spark.sql("SELECT 1L AS id, 'new' AS b").alias("u")
    members = F.struct(F.col("u.id").alias("x-y"), "u.b")
    (
        DeltaTable.forPath(spark, table)
        .alias("t")
        .merge(rows, "t.id = u.id")
        .whenMatchedUpdate(set={"s": members, "l": F.array(F.struct(rows["id"]), F.struct((F.col("t.id") + 1).alias("id")))})
        .execute()
    )
    assert reference_rows() == [(1, {"b": "new", "x-y": 1}, [{"id": 1}, {"id": 2}])]


def test_text_that_differs_in_every_plan_is_taken_by_its_words(birds, news, reference_rows):
    (
        birds.alias("e")
        .merge(news.alias("u"), "e.id = u.id")
        .whenMatchedUpdate(set={"name": "concat(u.name, substr(uuid(), 1, 0))"})
        .execute()
    )
    assert reference_rows()[1] == (2, "eagle owl", 480)


def test_what_means_nothing_is_sparks_to_refuse(birds, news, reference_rows):
    with pytest.raises(AnalysisException, match="nowhere"):
        birds.merge(news.alias("u"), "nowhere.id = u.id")
    with pytest.raises(AnalysisException, match=r"events"):
        birds.alias("events").merge(news.alias("u"), "events.id = u.id").whenNotMatchedInsert(values={"id": "events.id"})
    with pytest.raises(ExpressionNotTextError):
        birds.merge(news.alias("u"), F.udf(lambda x: x > 1, "boolean")(F.col("u.id")))
    with pytest.raises(TypeError, match="DataFrame"):
        birds.merge([1], "id = id")
    assert len(reference_rows()) == 3


def test_the_view_of_the_source_is_gone_afterwards(spark, birds, news):
    before = spark.sql("SHOW VIEWS").collect()
    birds.alias("e").merge(news.alias("u"), "e.id = u.id").whenMatchedDelete().execute()
    assert spark.sql("SHOW VIEWS").collect() == before


def test_default_as_a_value_is_the_default_of_the_column(spark, write_rows, table, reference_rows):
    columns = parse_struct("id BIGINT, name STRING DEFAULT 'nobody', other INT")
    DeltaLog.for_table(table).create(NewTable(schema=columns))
    write_rows("SELECT 1L AS id, 'wren' AS name, 5 AS other")
    for number, default in enumerate(("DEFAULT", " default ", F.expr("DEFAULT")), start=2):
        merge = DeltaTable.forPath(spark, table).alias("b").merge(spark.range(1, number + 1).alias("n"), "b.id = n.id")
        merge = merge.whenMatchedUpdate(condition="b.id = 1", set={"name": default, "b.other": default})
        merge.whenNotMatchedInsert(values={"id": "n.id", "name": default, "other": F.lit(number)}).execute()

    assert reference_rows() == [(1, "nobody", None), (2, "nobody", 2), (3, "nobody", 3), (4, "nobody", 4)]


def test_the_text_default_as_a_literal_is_a_text(spark, birds, reference_rows):
    merge = birds.alias("b").merge(spark.range(1, 2).alias("n"), "b.id = n.id")
    merge.whenMatchedUpdate(set={"name": F.lit("default")}).execute()
    birds.update(condition="id = 3", set={"name": F.lit("DEFAULT")})

    assert reference_rows(columns="id, name") == [(1, "default"), (2, "owl"), (3, "DEFAULT")]


def test_a_column_that_is_called_default_is_named_in_backticks(spark, birds, reference_rows):
    source = spark.sql("SELECT 1L AS id, 'w' AS `default`")
    merge = birds.alias("b").merge(source.alias("n"), "b.id = n.id")
    merge.whenMatchedUpdate(set={"name": "n.`default`", "grams": "DEFAULT"}).execute()

    assert reference_rows() == [(1, "w", None), (2, "owl", 480), (3, None, 20)]


def test_the_script_of_the_documentation_runs(spark, write_rows, table, reference_rows):
    write_rows("SELECT id, 'old' AS data FROM range(3)")
    page = (Path(__file__).parents[3] / "docs" / "scripts.md").read_text()
    [example] = [block for block in re.findall(r"```py\n(.*?)```", page, re.DOTALL) if "whenNotMatchedInsertAll" in block]
    lines = example.replace("/lake/events", table).splitlines()
    assert lines.pop(2).startswith("spark = configure_spark_with_delta_pip(SparkSession.builder).getOrCreate()")  # there is one
    exec("\n".join(lines), {"spark": spark, "updates": spark.sql("SELECT id, 'new' AS data FROM range(2, 5)"), "F": F})
    assert reference_rows() == [(0, "old"), (1, "old"), (2, "new"), (3, "new"), (4, "new")]


def upsert(birds, rows):
    birds.alias("t").merge(rows.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


@pytest.mark.classic(reason="Spark Connect refuses rows of two sessions in one plan")
def test_rows_of_another_session_are_merged_and_no_view_of_them_stays(spark, birds, news, reference_rows):
    other = spark.newSession()
    rows = other.createDataFrame(news.toArrow())
    upsert(birds, rows)
    assert reference_rows() == MERGED
    assert [session.sql("SHOW VIEWS LIKE 'merge_source_*'").count() for session in (spark, other)] == [0, 0]


@pytest.mark.classic(reason="over Spark Connect, batches are handled by the server, which has no table of this process")
def test_each_batch_of_a_stream_is_merged_by_the_table_of_the_session_that_started_it(
    spark, birds, news, reference_rows, tmp_path
):
    folder = str(tmp_path / "feed")
    news.write.parquet(folder)
    batches = spark.readStream.schema(news.schema).parquet(folder).writeStream.trigger(availableNow=True)
    batches = batches.option("checkpointLocation", str(tmp_path / "checkpoint"))
    batches.foreachBatch(lambda rows, _: upsert(birds, rows)).start().awaitTermination()
    assert reference_rows() == MERGED
