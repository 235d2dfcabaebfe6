"""Statements that read their own target: what they record, and what a concurrent commit does to them."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable as ForeignTable
from deltalake import write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    ConcurrentAppendError,
    ExpectationFailedError,
    InvalidPredicateError,
    InvalidStatementError,
)
from airflow_delta.core.statements import (
    DeleteStatement,
    Expectation,
    FileSource,
    MatchedUpdate,
    MergeStatement,
    NotMatchedInsert,
    SqlSource,
    TableSource,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.spark import DeltaTable
from airflow_delta.spark.data_source import register
from airflow_delta.spark.delta_table.frame_writer import delta_writer
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.errors import SparkConnectUnsupportedError
from airflow_delta.spark.jvm import is_connect
from airflow_delta.spark.spark_features import keeps_data_source_reads
from airflow_delta.spark.write.write import write
from tests.spark.needs import refused_over_connect
from tests.spark.session_settings import session_settings

DAYS = pa.table({"id": [1, 2, 3], "day": ["mon", "mon", "tue"]})
NEW_IDS = "SELECT s.* FROM VALUES (3L, 'tue'), (4L, 'wed') AS s(id, day) WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.id = s.id)"


@pytest.fixture
def days(table):
    """A table of days, written by deltalake."""
    write_deltalake(table, DAYS, partition_by=["day"])
    return table


@pytest.fixture
def run_write(spark, table):
    def run(source, log=None, **statement):
        return write(spark, log or DeltaLog.for_table(table), WriteStatement(table=table, source=source, **statement))

    return run


def of_target(query, table, **pinned):
    return SqlSource(query, views={"t": TableSource(table, **pinned)})


def append(table, *rows):
    ids, names = zip(*rows, strict=True)
    write_deltalake(table, pa.table({"id": ids, "day": names}), mode="append")


# -- races


def test_of_two_appends_of_missing_rows_the_second_finds_those_of_the_first(run_write, raced, days, rows, last_commit):
    source = of_target(NEW_IDS, days)
    second = run_write(source, raced(lambda: run_write(source)))

    assert rows() == [(1, "mon"), (2, "mon"), (3, "tue"), (4, "wed")]
    assert (second.version, second.read_version, second.attempts) == (2, 1, 2)
    assert [conflict["rule"] for conflict in second.conflicts] == ["DELTA_CONCURRENT_APPEND"]
    assert second.metrics["numOutputRows"] == 0
    assert last_commit()["isBlindAppend"] is False


def test_an_overwrite_with_the_distinct_rows_keeps_what_a_foreign_append_adds_meanwhile(run_write, raced, days, rows):
    append(days, (1, "mon"))
    result = run_write(
        of_target("SELECT DISTINCT * FROM t", days), raced(lambda: append(days, (9, "sun"), (9, "sun"))), mode="overwrite"
    )

    assert rows() == [(1, "mon"), (2, "mon"), (3, "tue"), (9, "sun")]
    assert result.attempts == 2


def test_rows_that_are_removed_while_a_source_uses_them_are_not_used(run_write, raced, days, rows):
    source = of_target("SELECT id + 10 AS id, 'new' AS day FROM t WHERE day = 'mon'", days)
    result = run_write(source, raced(lambda: ForeignTable(days).delete("day = 'mon'")))

    assert rows() == [(3, "tue")]
    assert [conflict["rule"] for conflict in result.conflicts] == ["DELTA_CONCURRENT_DELETE_READ"]


def test_a_compaction_does_not_disturb_a_source(run_write, raced, days, rows):
    append(days, (4, "mon"))
    result = run_write(of_target(NEW_IDS, days), raced(ForeignTable(days).optimize.compact))

    assert rows() == [(1, "mon"), (2, "mon"), (3, "tue"), (4, "mon")]
    assert (result.version, result.attempts) == (3, 2)
    assert [conflict["rule"] for conflict in result.conflicts] == [None]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT max(id) + 100 AS id, 'new' AS day FROM t WHERE day = 'mon'",
        "SELECT 102L AS id, 'new' AS day WHERE 9 > (SELECT max(x.id) FROM (SELECT id, day FROM t) x WHERE x.day IN ('mon'))",
        "WITH mondays AS (SELECT * FROM t WHERE 'mon' = t.day) SELECT 102L AS id, 'new' AS day FROM mondays m WHERE m.id = 1",
    ],
)
def test_a_read_is_recorded_with_its_condition_so_that_other_partitions_do_not_count(
    spark, run_write, raced, days, rows, query, last_commit
):
    result = run_write(of_target(query, days), raced(lambda: append(days, (9, "tue"))))
    rule = (
        "DELTA_CONCURRENT_APPEND" if is_connect(spark) else None
    )  # Spark Connect shows no conditions: the statement ran again

    assert rows() == [(1, "mon"), (2, "mon"), (3, "tue"), (9, "tue"), (102, "new")]
    assert (result.attempts, [conflict["rule"] for conflict in result.conflicts]) == (2, [rule])
    assert last_commit()["isBlindAppend"] is False


def test_a_view_that_only_an_expectation_reads_is_read_again_with_the_rows(run_write, raced, days, rows):
    unknown = Expectation("SELECT count(*) = 0 FROM staged JOIN t USING (id)")
    source = of_target("SELECT 9L AS id, 'sun' AS day", days)
    with pytest.raises(ExpectationFailedError):
        run_write(source, raced(lambda: append(days, (9, "sat"))), expect=unknown)

    assert rows() == [(1, "mon"), (2, "mon"), (3, "tue"), (9, "sat")]


def test_a_merge_of_a_table_into_itself_sees_what_a_concurrent_commit_adds(spark, raced, days, rows, last_commit):
    statement = MergeStatement(
        table=days,
        source=of_target("SELECT max(id) + 1 AS id, 'next' AS day FROM t", days),
        on="target.id = source.id",
        clauses=NotMatchedInsert(),
        expect=(Expectation("SELECT max(s.id) > max(t.id) FROM staged s, t"),),
    )
    result = merge(spark, raced(lambda: append(days, (7, "sun"))), statement)

    assert rows() == [(1, "mon"), (2, "mon"), (3, "tue"), (7, "sun"), (8, "next")]
    assert (result.read_version, result.attempts, result.sources[0]["version"]) == (1, 2, 1)
    assert last_commit()["isBlindAppend"] is False


def test_an_update_by_a_subquery_over_its_table_is_not_made_with_old_values(spark, raced, days, rows):
    register(spark)
    spark.read.format("delta").load(days).createOrReplaceTempView("all_days")
    statement = UpdateStatement(
        table=days, assignments={"id": "target.id + (SELECT max(id) FROM all_days)"}, where="day = 'mon'"
    )
    if is_connect(spark):  # which does not show which version these rows are of
        with pytest.raises(SparkConnectUnsupportedError, match=r"toDF\(\)"):
            update(spark, DeltaLog.for_table(days), statement)
        assert rows() == [(1, "mon"), (2, "mon"), (3, "tue")]
        return
    with pytest.raises(ConcurrentAppendError) as caught:
        update(spark, raced(lambda: append(days, (7, "sun"))), statement)
    assert caught.value.path.startswith("day=sun")
    assert rows() == [(1, "mon"), (2, "mon"), (3, "tue"), (7, "sun")]

    spark.read.format("delta").load(days).createOrReplaceTempView("all_days")
    assert update(spark, DeltaLog.for_table(days), statement).attempts == 1
    assert rows() == [(3, "tue"), (7, "sun"), (8, "mon"), (9, "mon")]


@pytest.mark.parametrize(
    ("on", "value"),
    [
        ("target.id = source.id", "(SELECT count(*) FROM all_days)"),
        ("target.id = source.id AND source.id <= (SELECT count(*) FROM all_days)", "0L"),
    ],
)
def test_a_merge_whose_clause_or_condition_reads_its_table_is_not_made_with_old_values(spark, raced, days, rows, on, value):
    DeltaTable.forPath(spark, days).toDF().createOrReplaceTempView("all_days")
    statement = MergeStatement(
        table=days,
        source=SqlSource("SELECT 2L AS id, 'new' AS day"),
        on=on,
        clauses=(MatchedUpdate(assignments={"id": f"target.id + 10 * {value}", "day": "source.day"}),),
    )
    with pytest.raises(ConcurrentAppendError) as caught:
        merge(spark, raced(lambda: append(days, (7, "sun"))), statement)
    assert caught.value.path.startswith("day=sun")
    assert rows() == [(1, "mon"), (2, "mon"), (3, "tue"), (7, "sun")]


LARGEST = "CREATE OR REPLACE TEMPORARY FUNCTION numeric(n BIGINT) RETURNS BIGINT RETURN n + (SELECT max(id) FROM all_days)"


@pytest.mark.parametrize("key", ["source.id + (SELECT max(id) FROM all_days)", "numeric(source.id)"])
def test_a_merge_from_another_table_whose_key_reads_its_table_is_not_made_with_old_values(spark, raced, days, rows, key):
    DeltaTable.forPath(spark, days).toDF().createOrReplaceTempView("all_days")
    spark.sql(LARGEST)
    news = f"{days}-news"
    write_deltalake(news, pa.table({"id": [1], "day": ["new"]}))
    clause = NotMatchedInsert(assignments={"id": "source.id + 100", "day": "source.day"})
    statement = MergeStatement(table=days, source=TableSource(news), on=f"target.id = {key}", clauses=(clause,))
    with pytest.raises(ConcurrentAppendError):
        merge(spark, raced(lambda: append(days, (7, "sun"))), statement)
    assert rows() == [(1, "mon"), (2, "mon"), (3, "tue"), (7, "sun")]


# -- what counts as a read


def test_a_statement_that_reads_other_tables_or_old_versions_stays_a_blind_append(spark, run_write, raced, days, last_commit):
    queries = [
        SqlSource("SELECT 5L AS id, 'fri' AS day"),
        of_target("SELECT id + 10 AS id, day FROM t", days, version=0),
        TableSource(days, version=0),
    ]
    if not is_connect(spark):  # over which a query carries its views, even one that it does not read
        queries.append(of_target("SELECT 6L AS id, 'sat' AS day", days))
    for query in queries:
        result = run_write(query, raced(lambda: append(days, (9, "sun"))))
        assert [conflict["rule"] for conflict in result.conflicts] == [None]
        assert last_commit()["isBlindAppend"] is True


@pytest.mark.parametrize(
    "of",
    [
        "toDF",
        pytest.param("format", marks=refused_over_connect),
        pytest.param("files", marks=pytest.mark.slow),
        pytest.param("changes", marks=[refused_over_connect, pytest.mark.slow]),
    ],
)
def test_rows_handed_over_are_known_to_be_of_the_target_and_never_committed_when_outdated(
    spark, raced, days, rows, of, last_commit
):
    ours = DeltaTable.forPath(spark, days)
    if of == "toDF":
        frame = ours.toDF()
    elif of == "format":
        register(spark)
        frame = spark.read.format("delta").load(days)
    elif of == "files":
        frame = spark.read.parquet(days)
    else:
        DeltaLog.for_table(days).alter().set_properties({"delta.enableChangeDataFeed": "true"})
        append(days, (4, "wed"))
        register(spark)
        frame = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 2).load(days)
    before = rows()
    frame = frame.groupBy("day").agg({"id": "max"}).toDF("day", "id").where("id > 0")

    def raced_append():
        write(
            spark,
            raced(lambda: append(days, (7, "sun"))),
            WriteStatement(table=days, source=SqlSource("SELECT * FROM handed_over")),
        )

    frame.createOrReplaceTempView("handed_over")
    with pytest.raises(ConcurrentAppendError):
        raced_append()
    assert rows() == sorted([*before, (7, "sun")])
    if of == "toDF" or (of != "files" and keeps_data_source_reads(spark)):  # rows that are bound to a version
        with pytest.raises(ConcurrentAppendError) as caught:
            delta_writer(frame).mode("append").save(days)
        assert caught.value.winner["operation"] == "WRITE"
    assert rows() == sorted([*before, (7, "sun")])


def test_rows_of_the_target_are_written_while_they_are_its_newest(spark, days, rows, last_commit):
    frame = DeltaTable.forPath(spark, days).toDF()
    delta_writer(frame.where("id > 1")).mode("overwrite").save(days)
    assert rows() == [(2, "mon"), (3, "tue")]

    with pytest.raises(ConcurrentAppendError):  # it has overwritten them itself
        delta_writer(frame).mode("append").save(days)
    old = DeltaTable.forPath(spark, days, version=0).toDF()
    delta_writer(old.where("id = 1")).mode("append").save(days)
    assert rows() == [(1, "mon"), (2, "mon"), (3, "tue")]
    assert last_commit()["isBlindAppend"] is True


def test_an_empty_table_is_read_too(spark, raced, run_write, table, rows):
    write_deltalake(table, DAYS.slice(0, 0))
    source = of_target(NEW_IDS, table)
    run_write(source, raced(lambda: run_write(source)))
    assert rows() == [(3, "tue"), (4, "wed")]

    ours = DeltaTable.forPath(spark, table)
    ours.delete()
    missing = spark.createDataFrame([(1, "mon")], "id BIGINT, day STRING").join(ours.toDF(), "id", "left_anti")
    append(table, (1, "mon"))
    with pytest.raises(ConcurrentAppendError):
        ours.alias("t").merge(missing.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()


def test_rows_of_two_versions_of_the_target_are_refused(spark, days, rows):
    ours = DeltaTable.forPath(spark, days)
    first = ours.toDF()
    append(days, (7, "sun"))
    with pytest.raises(InvalidStatementError, match="several versions"):
        delta_writer(ours.toDF().exceptAll(first)).mode("append").save(days)


@pytest.mark.slow
def test_hidden_rows_of_a_winner_make_a_self_reading_merge_run_again(spark, run_write, raced, table, rows):
    run_write(SqlSource("SELECT id, id AS v FROM range(4)"), properties={"delta.enableDeletionVectors": "true"})
    statement = MergeStatement(
        table=table,
        source=of_target("SELECT 1L AS id, sum(v) AS v FROM t", table),
        on="target.id = source.id",
        clauses=MatchedUpdate(),
    )
    merge(spark, raced(lambda: DeltaTable.forPath(spark, table).delete("id = 3")), statement)

    assert sorted(tuple(row) for row in DeltaTable.forPath(spark, table).toDF().collect()) == [(0, 0), (1, 3), (2, 2)]


def test_files_of_the_target_that_a_source_reads_count_as_the_target(run_write, raced, days, rows):
    source = SqlSource("SELECT max(id) + 1 AS id, 'new' AS day FROM f", views={"f": FileSource(days, format="parquet")})
    with pytest.raises(ConcurrentAppendError):
        run_write(source, raced(lambda: append(days, (7, "sun"))))
    run_write(source)
    assert rows()[-1] == (8, "new")


@pytest.mark.parametrize("where", ["id IN (SELECT max(id) FROM all_days)", 'id IN (SELECT max("id") FROM all_days)'])
def test_a_delete_by_a_subquery_is_refused_whatever_the_settings_make_of_its_text(spark, days, rows, where):
    DeltaTable.forPath(spark, days).toDF().createOrReplaceTempView("all_days")
    settings = {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.doubleQuotedIdentifiers": "true"}
    with session_settings(spark, settings), pytest.raises(InvalidPredicateError, match="subquery"):
        delete(spark, DeltaLog.for_table(days), DeleteStatement(table=days, where=where))
    assert rows() == [(1, "mon"), (2, "mon"), (3, "tue")]
