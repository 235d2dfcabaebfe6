"""Sources as DataFrames."""

import pytest

from airflow_delta.core.errors import TableNotFoundError, VersionNotFoundError
from airflow_delta.core.statements import FileSource, SqlSource, TableSource
from airflow_delta.spark.errors import SourceUnreadableError
from airflow_delta.spark.statement.sources import Pin, open_source


def test_a_table_is_read_at_the_version_or_time_requested(spark, write_rows, table):
    write_rows("SELECT 1 AS id")
    write_rows("SELECT 2 AS id")

    for source, rows, version in [
        (TableSource(table), 2, 1),
        (TableSource(table, version=0), 1, 0),
        (TableSource(table, version="0"), 1, 0),
    ]:
        opened = open_source(spark, source)
        assert opened.frame.count() == rows
        assert opened.pins == (Pin(table=table, version=version),)


def test_a_pinned_source_does_not_see_later_commits(spark, write_rows, table):
    write_rows("SELECT 1 AS id")
    opened = open_source(spark, SqlSource("SELECT count(*) AS n FROM t", views={"t": TableSource(table)}))
    write_rows("SELECT 2 AS id")

    assert opened.frame.collect() == [(1,)]
    assert opened.pins == (Pin(table=table, version=0),)


def test_what_is_not_there_is_named_and_not_made(spark, write_rows, table, tmp_path):
    with pytest.raises(TableNotFoundError):
        open_source(spark, TableSource(table))
    write_rows("SELECT 1 AS id")
    with pytest.raises(VersionNotFoundError) as caught:
        open_source(spark, SqlSource("SELECT * FROM t", views={"t": TableSource(table, version=7)}))
    assert (caught.value.version, caught.value.latest) == (7, 0)
    with pytest.raises(SourceUnreadableError) as missing:
        open_source(spark, FileSource(str(tmp_path / "feed.csv"), format="csv"))
    assert missing.value.source == str(tmp_path / "feed.csv")


def test_a_query_that_does_not_parse_is_refused_with_the_words_of_spark(spark):
    with pytest.raises(SourceUnreadableError) as caught:
        open_source(spark, SqlSource("SELECT (1"))
    assert "PARSE_SYNTAX_ERROR" in caught.value.detail


@pytest.mark.parametrize(
    ("name", "text", "source"),
    [
        ("f.csv", "id,day\n1,2013-01-01\n", {"format": "csv", "options": {"header": "true"}}),
        ("f.json", '{"id": 1, "day": "2013-01-01"}\n', {"format": "json"}),
    ],
)
def test_files_are_read_with_the_schema_given(spark, tmp_path, name, text, source):
    (tmp_path / name).write_text(text)
    opened = open_source(spark, FileSource(str(tmp_path / name), schema="id INT, day DATE", **source))

    assert opened.frame.dtypes == [("id", "int"), ("day", "date")]
    assert [str(row.day) for row in opened.frame.collect()] == ["2013-01-01"]


def test_a_query_sees_its_views_and_their_names_end_with_it(spark, tmp_path):
    (tmp_path / "a.csv").write_text("1\n2\n")
    view = FileSource(str(tmp_path / "a.csv"), format="csv", schema="id INT")
    opened = open_source(spark, SqlSource("SELECT sum(id) AS s FROM numbers", views={"numbers": view}))

    assert not spark.catalog.tableExists("numbers")
    assert opened.frame.collect() == [(3,)]
    assert set(opened.views) == {"numbers"}


def test_the_time_of_a_statement_is_one_for_all_rows(spark):
    frame = open_source(spark, SqlSource("SELECT current_timestamp() AS at FROM range(0, 1000, 1, 4)")).frame
    assert frame.distinct().count() == 1
