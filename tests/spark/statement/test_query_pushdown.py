"""Columns and conditions that a query needs from the tables behind its views: never less than it uses, in any shape."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.predicate import TRUE, parse_predicate
from airflow_delta.spark.io import scan
from airflow_delta.spark.session import temporary_views
from airflow_delta.spark.statement import query
from airflow_delta.spark.statement.query import QueryViews, TableAtVersion, query_rows
from airflow_delta.spark.statement.query_pushdown import push_down
from tests.spark.needs import sees_plans
from tests.spark.session_settings import session_settings

DAY = dt.date(2013, 11, 1)


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory):
    """``sales``: 4 days of 3 files each, partitioned by day; ``shops``: 3 files of 4 rows."""
    folder = tmp_path_factory.mktemp("tables")
    for part in range(3):
        numbers = range(part * 4, part * 4 + 4)
        sales = {
            "id": pa.array([*numbers], pa.int64()),
            "day": pa.array([DAY + dt.timedelta(days=number % 4) for number in numbers]),
            "shop": pa.array([number % 5 if number else None for number in numbers], pa.int32()),
            "price": pa.array([Decimal(number) / 4 for number in numbers], pa.decimal128(9, 2)),
            "At Noon": pa.array([dt.datetime(2013, 11, 3, number, 30, tzinfo=dt.UTC) for number in numbers]),
            "note": [f"n'{number}\\" for number in numbers],
        }
        write_deltalake(str(folder / "sales"), pa.table(sales), mode="append", partition_by=["day"])
        shops = {
            "shop": pa.array([*numbers], pa.int32()),
            "name": [f"shop {number}" for number in numbers],
            "note": [None] * 4,
        }
        shops["note"] = pa.array(shops["note"], pa.string())
        write_deltalake(str(folder / "shops"), pa.table(shops), mode="append")
    return {name: DeltaLog.for_table(str(folder / name)).snapshot() for name in ("sales", "shops")}


QUERIES = {
    # query: columns and condition that are needed of sales, likewise of shops; None for all
    "SELECT sum(price) FROM sales": (("price",), None, None, None),
    "SELECT count(*) FROM sales": ((), None, None, None),
    "SELECT * FROM sales WHERE id = 7": (None, "id IS NOT NULL AND id = 7", None, None),
    "SELECT ID FROM sales WHERE DAY = '2013-11-02'": (
        ("id", "day"),
        "day IS NOT NULL AND day = DATE'2013-11-02'",
        None,
        None,
    ),
    "SELECT s.id FROM sales s JOIN shops USING (shop) WHERE shop = 3": (
        ("id", "shop"),
        "shop IS NOT NULL AND shop = 3",
        ("shop",),
        "shop IS NOT NULL AND shop = 3",
    ),
    # the condition on the side that an outer join may leave empty is one after the join
    "SELECT s.id, name FROM sales s LEFT JOIN shops p ON s.shop = p.shop WHERE p.shop IS NULL": (
        ("id", "shop"),
        None,
        ("shop", "name"),
        "shop IS NOT NULL",
    ),
    "SELECT s.id FROM sales s LEFT JOIN shops p ON s.shop = p.shop AND p.name = 'shop 1'": (
        ("id", "shop"),
        None,
        ("shop", "name"),
        "name IS NOT NULL AND name = 'shop 1' AND shop IS NOT NULL",
    ),
    "SELECT s.id FROM sales s FULL JOIN shops p ON s.shop = p.shop AND s.id = 1": (("id", "shop"), None, ("shop",), None),
    "WITH c AS (SELECT *, rank() OVER (PARTITION BY day ORDER BY id) r FROM sales) SELECT price FROM c WHERE id = r + 5": (
        ("id", "day", "price"),
        None,
        None,
        None,
    ),
    "SELECT * FROM (SELECT id, lag(id) OVER (PARTITION BY day ORDER BY id) FROM sales) WHERE id > 9": (
        ("id", "day"),
        None,
        None,
        None,
    ),
    "SELECT name FROM shops WHERE shop IN (SELECT shop FROM sales WHERE id < 3)": (
        ("shop", "id"),
        "id IS NOT NULL AND id < 3",
        ("name", "shop"),
        None,
    ),
    "SELECT id FROM sales WHERE id = 1 UNION ALL SELECT shop FROM sales WHERE id = 2": (
        ("id", "shop"),
        "id IS NOT NULL AND id = 1 OR id IS NOT NULL AND id = 2",
        None,
        None,
    ),
    "SELECT id FROM (SELECT * FROM sales LIMIT 3) WHERE id = 1": (("id",), None, None, None),
    "SELECT id FROM sales TABLESAMPLE (50 PERCENT) REPEATABLE (1) WHERE id = 1": (("id",), None, None, None),
    "SELECT id FROM sales WHERE id = 1 AND rand() < 2": (("id",), "id IS NOT NULL AND id = 1", None, None),
    "SELECT id FROM sales WHERE day <= current_date()": (("id", "day"), None, None, None),
    "SELECT id FROM sales WHERE day <= 'today'": (("id", "day"), None, None, None),
    "SELECT max(id) FROM sales GROUP BY day HAVING day > '2013-11-02'": (
        ("id", "day"),
        "day IS NOT NULL AND day > DATE'2013-11-02'",
        None,
        None,
    ),
    "SELECT note FROM sales WHERE note = 'n\\'3\\\\'": (("note",), "note IS NOT NULL AND note = 'n\\'3\\\\'", None, None),
    "SELECT `At Noon` FROM sales WHERE `At Noon` < '2013-11-03 05:00:00'": (
        ("At Noon",),
        "`At Noon` IS NOT NULL AND `At Noon` < TIMESTAMP'2013-11-03 05:00:00'",
        None,
        None,
    ),
    "SELECT 1": (None, None, None, None),
}

SAME_ROWS = [
    *(text for text in QUERIES if "LIMIT" not in text and "SAMPLE" not in text),
    "FROM sales |> WHERE price >= 1.5 |> SELECT id",
    "SELECT * FROM sales NATURAL JOIN shops",
    "SELECT * EXCEPT (note) FROM sales WHERE NOT (id BETWEEN 2 AND 9)",
    "SELECT s.* FROM sales s WHERE EXISTS (SELECT 1 FROM shops p WHERE p.shop = s.shop AND p.name LIKE 'shop 3%')",
    "SELECT id, (SELECT max(name) FROM shops p WHERE p.shop = s.shop) AS n FROM sales s WHERE s.id > 8",
    "SELECT * FROM sales s RIGHT JOIN shops p ON s.shop = p.shop WHERE p.shop > 2 AND s.id > 3",
    "SELECT s.id FROM sales s LEFT ANTI JOIN shops p ON s.shop = p.shop AND p.shop < 2",
    "SELECT day, count(*) FROM sales WHERE shop IN (1, 2, 9) OR shop IS NULL GROUP BY CUBE (day)",
    "SELECT * FROM (SELECT id, day FROM sales) PIVOT (count(id) FOR day IN (DATE'2013-11-01' AS a, DATE'2013-11-03' AS b))",
    "SELECT id FROM sales WHERE shop <=> NULL OR day = DATE'2013-11-04' AND price < 2",
    "SELECT id FROM sales WHERE id = 3 EXCEPT SELECT shop FROM shops WHERE shop = 3",
    "SELECT id FROM sales WHERE CAST(day AS STRING) LIKE '%-04' AND id + 1 > 5",
    "TABLE sales",
]


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Treat small tables as large ones."""
    monkeypatch.setattr(query, "_LARGE_BYTES", 0)


def views_of(spark, snapshots):
    return QueryViews(
        spark=spark,
        tables={name: TableAtVersion(snapshot=snapshot, is_newest=True) for name, snapshot in snapshots.items()},
    )


def parts(predicate):
    """The predicate without the order of its operands."""
    operands = getattr(predicate, "operands", None)
    return (type(predicate), frozenset(map(parts, operands))) if operands else predicate


def rows_of(frame):
    return sorted(map(str, frame.collect()))


@sees_plans
@pytest.mark.parametrize("text", QUERIES)
def test_columns_and_conditions_are_those_that_spark_pushes_down(spark, snapshots, text):
    found = push_down(spark, text, snapshots, {})
    for name, columns, condition in zip(("sales", "shops"), QUERIES[text][::2], QUERIES[text][1::2], strict=True):
        if (columns, condition) == (None, None):
            assert name not in found
            continue
        snapshot = snapshots[name]
        assert found[name].columns == (None if columns is None else set(columns))
        wanted = TRUE if condition is None else parse_predicate(condition, snapshot.schema, name)
        assert parts(found[name].predicate) == parts(wanted)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["jvm", "arrow"])
def test_every_query_gives_the_rows_that_it_gives_on_whole_tables(spark, snapshots, monkeypatch, engine):
    monkeypatch.setattr(scan, "suits_jvm", lambda _, **__: engine == "jvm")
    views = views_of(spark, snapshots)
    with temporary_views(spark, dict(views)):
        wanted = {text: rows_of(spark.sql(text)) for text in SAME_ROWS}
    assert {text: rows_of(query_rows(text, views)) for text in SAME_ROWS} == wanted
    assert sum(map(bool, wanted.values())) > 25


@sees_plans
def test_files_without_such_rows_and_columns_that_are_not_needed_are_not_read(spark, snapshots, monkeypatch):
    views = views_of(spark, snapshots)
    text = "SELECT id FROM sales WHERE day = '2013-11-02' AND id > 2"
    assert len(query_rows(text, views).inputFiles()) == 2
    monkeypatch.setattr(scan, "suits_jvm", lambda _, **__: False)
    read = []
    monkeypatch.setattr(scan, "arrow_scan", lambda *args, needed: read.append(needed) or spark.range(0))
    query_rows("SELECT 1", views)
    with pytest.raises(Exception, match="cannot be resolved"):
        query_rows(text, views)
    assert read[-2] == {"id", "day"}


def test_what_spark_refuses_and_commands_push_nothing_down_and_run_nothing(spark, snapshots, tmp_path):
    for text in (
        "SELECT (1",
        "SELECT nothing FROM sales",
        f"INSERT OVERWRITE DIRECTORY '{tmp_path}/out' USING parquet SELECT * FROM sales WHERE id = 1",
        f"CREATE TABLE other USING parquet LOCATION '{tmp_path}/out' AS SELECT * FROM sales WHERE id = 1",
    ):
        assert push_down(spark, text, snapshots, {}) == {}
    assert not (tmp_path / "out").exists()
    assert not spark.catalog.tableExists("sales")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.doubleQuotedIdentifiers": "true"},
            """SELECT id FROM sales WHERE "note" > 'n' AND "id" > 8""",
        ),
        ({"spark.sql.parser.escapedStringLiterals": "true"}, r"SELECT id FROM sales WHERE note LIKE 'n_3\\'"),
        ({"spark.sql.caseSensitive": "true"}, "SELECT id FROM sales WHERE note > 'n' AND id > 8"),
        ({"spark.sql.ansi.enabled": "false"}, "SELECT id FROM sales WHERE shop = '3' OR id < '2.5'"),
    ],
)
def test_a_session_that_reads_sql_in_another_way_gets_its_rows(spark, snapshots, settings, text):
    views = views_of(spark, snapshots)
    with session_settings(spark, settings):
        with temporary_views(spark, dict(views)):
            wanted = rows_of(spark.sql(text))
        assert rows_of(query_rows(text, views)) == wanted


def test_a_time_that_the_clock_shows_twice_is_not_taken_for_the_wrong_one(spark, snapshots):
    # 05:30 and 06:30 UTC are both 01:30 in New York, where the clock was set back.
    text = "SELECT id FROM sales WHERE `At Noon` = TIMESTAMP'2013-11-03 06:30:00Z'"
    with session_settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        assert [row.id for row in query_rows(text, views_of(spark, snapshots)).collect()] == [6]


@sees_plans
def test_a_time_that_the_clock_shows_once_chooses_files(spark, snapshots):
    text = "SELECT id FROM sales WHERE `At Noon` = TIMESTAMP'2013-11-03 09:30:00Z'"
    with session_settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        assert len(query_rows(text, views_of(spark, snapshots)).inputFiles()) == 1


def test_a_column_is_no_constant_whatever_its_name(spark, tmp_path):
    rows = {"true": pa.array([False, True]), "null": pa.array([1, 2], pa.int64())}
    write_deltalake(str(tmp_path / "odd"), pa.table(rows))
    views = views_of(spark, {"odd": DeltaLog.for_table(str(tmp_path / "odd")).snapshot()})
    for text in ("SELECT `null` FROM odd WHERE NOT odd.`true`", "SELECT `null` FROM odd WHERE odd.`null` = 1"):
        assert [row[0] for row in query_rows(text, views).collect()] == [1]
