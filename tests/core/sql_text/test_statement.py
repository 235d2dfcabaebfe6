"""Delta's statements as texts: each becomes the value that its operator makes, and nothing is half understood."""

from datetime import UTC, datetime

import pytest

from airflow_delta.core.errors import DeltaError, InvalidStatementError, SqlTextError
from airflow_delta.core.sql_text import (
    DescribeDetail,
    DescribeHistory,
    ShowColumns,
    ShowProperties,
    TextContext,
    is_query,
    is_statement,
    parse_statement,
    tables_of_text,
    with_named_views,
)
from airflow_delta.core.statements import (
    AddColumns,
    AddConstraint,
    AllowNull,
    AlterStatement,
    CloneStatement,
    ClusterBy,
    CommentColumn,
    ConvertStatement,
    CopyIntoStatement,
    CreateStatement,
    DeleteStatement,
    DropColumns,
    DropConstraint,
    DropFeature,
    ManifestStatement,
    MatchedDelete,
    MergeStatement,
    MoveColumn,
    OptimizeStatement,
    RenameColumn,
    ReorgStatement,
    RestoreStatement,
    SetDefault,
    SetProperties,
    SqlSource,
    TableSource,
    UnsetProperties,
    UpdateStatement,
    VacuumStatement,
    WidenColumn,
    WriteMode,
    WriteStatement,
)

T = "delta.`/t`"


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        (f"DELETE FROM {T}", DeleteStatement(table="/t")),
        (
            f"delete from {T} AS x where x.day < DATE'2026-01-01' -- ;\n;",
            DeleteStatement(table="/t", where="target.day < DATE'2026-01-01'"),
        ),
        (
            f"UPDATE {T} x SET x.a = x.a + 1, s.`b.c` = concat('x.a, b = ', x.b) WHERE x.c",
            UpdateStatement(
                table="/t",
                assignments={"a": "target.a + 1", "s.`b.c`": "concat('x.a, b = ', target.b)"},
                where="target.c",
            ),
        ),
        (f"UPDATE {T} SET a = DEFAULT", UpdateStatement(table="/t", assignments={"a": "DEFAULT"})),
        (
            f"MERGE INTO {T} t USING delta.`s3://lake/s` VERSION AS OF 3 AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
            MergeStatement(
                table="/t",
                source=TableSource("s3://lake/s", version=3),
                on="target.id = source.id",
                clauses=(MatchedDelete(),),
            ),
        ),
        (f"OPTIMIZE {T}", OptimizeStatement(table="/t")),
        (f"OPTIMIZE {T} FULL", OptimizeStatement(table="/t", full=True)),
        ("OPTIMIZE '/t' WHERE t.a = 1", OptimizeStatement(table="/t", where="t.a = 1")),
        (
            f"OPTIMIZE {T} WHERE day IN (1, 2) ZORDER BY (a, `b.c`.d)",
            OptimizeStatement(table="/t", where="day IN (1, 2)", z_order_by=("a", "`b.c`.d")),
        ),
        (f"VACUUM {T}", VacuumStatement(table="/t", dry_run=False)),
        ("VACUUM 's3://lake/it\\'s' DRY RUN", VacuumStatement(table="s3://lake/it's", dry_run=True)),
        (
            f"VACUUM {T} LITE RETAIN 168.5 HOURS DRY RUN",
            VacuumStatement(table="/t", lite=True, retention_hours=168.5, dry_run=True),
        ),
        (
            f"VACUUM {T} FULL USING INVENTORY parquet.`/list` DRY RUN RETAIN 0 HOURS",
            VacuumStatement(table="/t", inventory="/list", retention_hours=0, dry_run=True),
        ),
        (f"REORG TABLE {T} WHERE p = 1 APPLY (PURGE)", ReorgStatement(table="/t", where="p = 1")),
        (f"RESTORE TABLE {T} TO VERSION AS OF 3", RestoreStatement(table="/t", version=3)),
        (f"RESTORE {T} TIMESTAMP AS OF '2026-01-01'", RestoreStatement(table="/t", timestamp="2026-01-01")),
        (f"GENERATE symlink_format_manifest FOR TABLE {T}", ManifestStatement(table="/t")),
        (
            "CONVERT TO DELTA parquet.`/t` NO STATISTICS PARTITIONED BY (day DATE, n INT)",
            ConvertStatement(table="/t", statistics=False, partition_by="day DATE, n INT"),
        ),
        (f"DESCRIBE HISTORY {T} LIMIT 2", DescribeHistory(table="/t", limit=2)),
        ('DESCRIBE HISTORY "/t" LIMIT 2', DescribeHistory(table="/t", limit=2)),
        (f"DESC DETAIL {T}", DescribeDetail(table="/t")),
        ("DESCRIBE DETAIL '/t'", DescribeDetail(table="/t")),
        (f"SHOW COLUMNS FROM {T}", ShowColumns(table="/t")),
        (f"SHOW TBLPROPERTIES {T} (delta.appendOnly)", ShowProperties(table="/t", key="delta.appendOnly")),
        (
            (
                f"COPY INTO {T} FROM (SELECT *, f(a, b) AS c FROM '/in') FILEFORMAT = CSV PATTERN = '*.csv' "
                "FORMAT_OPTIONS ('header' = 'true', sep = '|') COPY_OPTIONS ('mergeSchema' = 'true')"
            ),
            CopyIntoStatement(
                table="/t",
                path="/in",
                format="csv",
                pattern="*.csv",
                options={"header": "true", "sep": "|"},
                select=("*", "f(a, b) AS c"),
                merge_schema=True,
            ),
        ),
    ],
)
def test_a_text_becomes_the_statement_of_its_operator(text, statement):
    assert parse_statement(text) == statement


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"INSERT INTO {T} VALUES (1, 'a')", {"source": SqlSource("VALUES (1, 'a')"), "by_position": True}),
        (f"INSERT INTO TABLE {T} BY NAME (SELECT 1 AS a)", {"source": SqlSource("(SELECT 1 AS a)")}),
        (
            f"INSERT WITH SCHEMA EVOLUTION INTO {T} (a, `b c`) WITH x AS (SELECT 1, 2) TABLE x",
            {
                "source": SqlSource("SELECT * FROM (\nWITH x AS (SELECT 1, 2) TABLE x\n) AS inserted (`a`, `b c`)"),
                "merge_schema": True,
            },
        ),
        (
            f"INSERT OVERWRITE {T} (SELECT 1)",
            {"source": SqlSource("(SELECT 1)"), "mode": WriteMode.OVERWRITE, "by_position": True},
        ),
        (
            f"INSERT INTO {T} BY NAME REPLACE WHERE a IS DISTINCT FROM (3) SELECT 1 AS a FROM delta.`/s` VERSION AS OF 2 s",
            {
                "source": SqlSource("SELECT 1 AS a FROM delta_0 s", views={"delta_0": TableSource("/s", version=2)}),
                "mode": WriteMode.REPLACE_WHERE,
                "replace_where": "a IS DISTINCT FROM (3)",
            },
        ),
        *(
            (
                f"INSERT INTO {T} BY NAME REPLACE WHERE {condition} {query}",
                {"source": SqlSource(query), "mode": WriteMode.REPLACE_WHERE, "replace_where": condition},
            )
            for condition, query in [
                ("values > 1", "VALUES (2)"),
                ("a = 1 AND NOT values <=> table", "TABLE s"),
                ("a > 1 + values", "SELECT 1"),
                ("a IS DISTINCT FROM values", "VALUES (2)"),
            ]
        ),
        (
            (
                f"CREATE OR REPLACE TABLE {T} USING delta PARTITIONED BY (p) TBLPROPERTIES (delta.appendOnly = TRUE, n = 1) "
                "AS SELECT * FROM delta.`/s` JOIN delta.`/s` JOIN delta.`/u` FOR SYSTEM_TIME AS OF '2026-01-01' JOIN delta_0"
            ),
            {
                "source": SqlSource(
                    "SELECT * FROM delta_1 JOIN delta_1 JOIN delta_2 JOIN delta_0",
                    views={"delta_1": TableSource("/s"), "delta_2": TableSource("/u", timestamp="2026-01-01")},
                ),
                "mode": WriteMode.CREATE_OR_REPLACE,
                "partition_by": ("p",),
                "properties": {"delta.appendOnly": "true", "n": "1"},
            },
        ),
        (f"CREATE TABLE {T} USING delta AS VALUES (1)", {"source": SqlSource("VALUES (1)"), "mode": WriteMode.CREATE}),
    ],
)
def test_rows_of_a_query_are_written(text, expected):
    assert parse_statement(text) == WriteStatement(table="/t", **expected)


def test_a_table_is_created_as_the_text_says():
    text = f"""CREATE TABLE IF NOT EXISTS {T} (
        id BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 5), -- numbered
        m MAP<STRING, ARRAY<INT>> NOT NULL COMMENT 'it\\'s, a map',
        at TIMESTAMP DEFAULT now(), day DATE GENERATED ALWAYS AS (CAST(at AS DATE))
    ) USING delta COMMENT 'a\\tb' CLUSTER   BY (id, s.x) LOCATION '/t/' TBLPROPERTIES ('delta.x' = r'\\d')"""
    made = parse_statement(text)
    assert made == CreateStatement(
        table="/t",
        columns=made.columns,
        cluster_by=("id", "s.x"),
        properties={"delta.x": "\\d"},
        comment="a\tb",
        mode="ignore",
    )
    assert made.columns.startswith("id BIGINT GENERATED BY DEFAULT")
    assert made.columns.endswith("AS (CAST(at AS DATE))")


def test_a_table_is_cloned_as_the_text_says():
    text = f"CREATE OR REPLACE TABLE {T} SHALLOW CLONE delta.`/s` TIMESTAMP AS OF '2026-01-01' TBLPROPERTIES (a = 'b')"
    assert parse_statement(text) == CloneStatement(
        table="/t", source=TableSource("/s", timestamp="2026-01-01"), mode="replace", properties={"a": "b"}
    )
    for words in ("DEEP CLONE", "CLONE"):
        assert parse_statement(f"CREATE TABLE IF NOT EXISTS {T} {words} delta.`/s` VERSION AS OF 3") == CloneStatement(
            table="/t", source=TableSource("/s", version=3), deep=True, mode="ignore"
        )


@pytest.mark.parametrize(
    ("change", "changes"),
    [
        ("ADD COLUMNS (a INT, m MAP<INT, STRING>)", [AddColumns("a INT, m MAP<INT, STRING>")]),
        ("ADD COLUMN s.a DECIMAL(5, 2) COMMENT 'x, y' FIRST", [AddColumns("s.a DECIMAL(5, 2) COMMENT 'x, y'", first=True)]),
        (
            "ADD COLUMNS (first INT AFTER b, m MAP<INT, STRING>)",
            [AddColumns("first INT", after="b"), AddColumns("m MAP<INT, STRING>")],
        ),
        ("ADD COLUMN change STRUCT<before: INT, after: INT>", [AddColumns("change STRUCT<before: INT, after: INT>")]),
        ("ADD COLUMN change.after INT", [AddColumns("change.after INT")]),
        ("ADD COLUMN change.after INT AFTER before", [AddColumns("change.after INT", after="before")]),
        ("DROP COLUMNS IF EXISTS (a, `b.c`.d)", [DropColumns(("a", "`b.c`.d"), if_exists=True)]),
        ("DROP COLUMN a, b", [DropColumns(("a", "b"))]),
        ("RENAME COLUMN a.b TO c", [RenameColumn("a.b", "c")]),
        ("ALTER COLUMN a TYPE DECIMAL(10, 2)", [WidenColumn("a", "DECIMAL(10, 2)")]),
        ("CHANGE a.element COMMENT 'x'", [CommentColumn("a.element", "x")]),
        ("ALTER a AFTER b", [MoveColumn("a", after="b")]),
        ("ALTER COLUMN a FIRST", [MoveColumn("a", first=True)]),
        ("ALTER COLUMN a SET DEFAULT 3 + f(4)", [SetDefault("a", "3 + f(4)")]),
        ("ALTER COLUMN a DROP DEFAULT", [SetDefault("a", None)]),
        ("ALTER COLUMN a DROP NOT NULL", [AllowNull("a")]),
        ("SET TBLPROPERTIES ('a' = 'b', delta.x = 3)", [SetProperties({"a": "b", "delta.x": "3"})]),
        ("UNSET TBLPROPERTIES IF EXISTS ('a', b.c)", [UnsetProperties(("a", "b.c"), if_exists=True)]),
        ("ADD CONSTRAINT c CHECK (a > (3) OR b IS NULL)", [AddConstraint("c", "a > (3) OR b IS NULL")]),
        ("DROP CONSTRAINT IF EXISTS c", [DropConstraint("c", if_exists=True)]),
        ("CLUSTER BY (a, b.c)", [ClusterBy(("a", "b.c"))]),
        ("CLUSTER BY NONE", [ClusterBy(())]),
        ("DROP FEATURE 'deletionVectors' TRUNCATE HISTORY", [DropFeature("deletionVectors", truncate_history=True)]),
    ],
)
def test_a_table_is_altered_as_the_text_says(change, changes):
    assert parse_statement(f"ALTER TABLE {T} {change}") == AlterStatement(table="/t", changes=tuple(changes))


def test_the_comment_of_a_table_is_a_property():
    assert parse_statement(f"COMMENT ON TABLE {T} IS 'x'") == AlterStatement(
        table="/t", changes=(SetProperties({"comment": "x"}),)
    )


REFUSED = {
    "": "expected one of MERGE, DELETE",
    "SELECT 1": "expected one of MERGE, DELETE",
    f"TRUNCATE TABLE {T}": "expected one of MERGE, DELETE",
    f"DELETE FROM {T}; DELETE FROM {T}": "expected one statement, found another one",
    f"DELETE FROM {T} WHERE": "expected an expression behind WHERE",
    f"DELETE FROM {T} t x": "expected the end of the statement, found 'x'",
    f"DELETE FROM {T} WHERE id IN (SELECT id FROM delta.`/s`)": "reads another table",
    f"DELETE FROM {T} VERSION AS OF 3": "expected the end of the statement",
    "DELETE FROM lake.flights": "is the name of a catalog",
    "DELETE FROM 'x'": "expected a table",
    f"UPDATE {T} SET a": "expected column = expression, found 'a'",
    f"UPDATE {T} SET a = 1, A = 2": "A is assigned twice",
    f"UPDATE {T} SET a = ": "expected an expression behind SET",
    f"UPDATE {T} SET f(a) = 1": "expected a column, found 'f(a)'",
    f"INSERT INTO {T}": "expected a query",
    f"INSERT INTO {T} PARTITION (a = 1) SELECT 2": "PARTITION is not taken",
    f"INSERT INTO {T} REPLACE WHERE a = 1": "expected a query",
    f"INSERT OVERWRITE {T} REPLACE WHERE a = 1 SELECT 1": "expected a query",
    f"INSERT INTO {T} (a, b c) SELECT 1, 2": "expected a comma or )",
    f"OPTIMIZE {T} ZORDER BY a": "expected a list in parentheses",
    f"OPTIMIZE {T} ZORDER BY (a) WHERE x = 1": "expected the end of the statement, found 'WHERE x = 1'",
    f"OPTIMIZE {T} FULL ZORDER BY (a)": "cannot be combined with z_order_by",
    f"VACUUM {T} RETAIN 3 DAYS": "expected HOURS, found 'DAYS'",
    f"VACUUM {T} RETAIN -1 HOURS": "expected a number of hours, found '-1 HOURS'",
    f"VACUUM {T} LITE FULL": "expected the end of the statement",
    "VACUUM 'flights'": "expected a path in quotes, found 'flights'",
    "RESTORE '/t' VERSION AS OF 3": "expected a table, found \"'/t' VERSION AS OF 3\"",
    f"VACUUM {T} USING INVENTORY (SELECT 1)": "expected a table",
    f"REORG TABLE {T} APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))": "expected PURGE",
    f"RESTORE TABLE {T} TO VERSION AS OF -1": "expected a version",
    f"RESTORE TABLE {T} TO TIMESTAMP AS OF current_date()": "expected a time as text",
    f"RESTORE TABLE {T}": "expected VERSION AS OF or TIMESTAMP AS OF",
    f"GENERATE something FOR TABLE {T}": "expected SYMLINK_FORMAT_MANIFEST",
    f"DESCRIBE TABLE {T}": "expected HISTORY or DETAIL",
    f"SHOW TABLES IN {T}": "expected COLUMNS or TBLPROPERTIES",
    f"SHOW TBLPROPERTIES {T} (a, b)": "expected one key, found 2",
    f"CREATE TABLE {T} (a INT)": "expected USING, found the end of the text",
    f"CREATE TABLE {T} (a INT) USING parquet": "expected DELTA, found 'parquet'",
    f"CREATE TABLE {T} USING delta": "expected AS and a query",
    f"CREATE TABLE {T} (a INT) USING delta AS SELECT 1": "are those of its query",
    f"CREATE TABLE IF NOT EXISTS {T} USING delta AS SELECT 1": "IF NOT EXISTS does not go with AS",
    f"CREATE OR REPLACE TABLE IF NOT EXISTS {T} (a INT) USING delta": "exclude each other",
    f"CREATE TABLE {T} (a INT) USING delta COMMENT 'a' COMMENT 'a'": "stands there twice",
    f"CREATE TABLE {T} (a INT) USING delta LOCATION '/u'": "LOCATION is /u, and the name means /t",
    f"CREATE TABLE {T} (a INT) USING delta PARTITIONED BY (days(a))": "expected a comma or )",
    f"CREATE TABLE {T} (a INT) USING delta PARTITIONED BY (a) CLUSTER BY (a)": "exclude each other",
    f"CREATE TABLE {T} (a INT) USING delta TBLPROPERTIES (a = 1, a = 2)": "a property is set twice",
    f"CREATE TABLE {T} (a INT) USING delta TBLPROPERTIES (a = b)": "expected a text in quotes, a number, true or false",
    f"CREATE TABLE {T} (a INT) USING delta OPTIONS (a = 1)": "expected a clause, AS or the end",
    f"CREATE TABLE {T} LIKE delta.`/s`": "expected columns, USING DELTA or CLONE",
    f"CREATE TABLE {T} DEEP delta.`/s`": "expected (, found 'DEEP",
    f"CREATE VIEW v AS SELECT * FROM {T}": "expected TABLE, found 'VIEW v",
    f"ALTER TABLE {T} RENAME TO delta.`/u`": "expected COLUMN, found 'TO",
    f"ALTER TABLE {T} REPLACE COLUMNS (a INT)": "REPLACE COLUMNS is not taken",
    f"ALTER TABLE {T} ALTER COLUMN a SET NOT NULL": "expected DEFAULT, found 'NOT NULL'",
    f"ALTER TABLE {T} CHANGE a a BIGINT": "expected TYPE, COMMENT, FIRST, AFTER, SET or DROP",
    f"ALTER TABLE {T} ALTER COLUMN a COMMENT 'x' FIRST": "expected the end of the statement",
    f"ALTER TABLE {T} ADD COLUMN a INT AFTER b c": "expected one name behind AFTER",
    f"ALTER TABLE {T} ADD CONSTRAINT c CHECK a > 3": "expected a condition in parentheses",
    f"ALTER TABLE {T} CLUSTER BY AUTO": "expected a list in parentheses",
    f"INSERT INTO {T} VALUES (1, DEFAULT)": "DEFAULT is not taken in VALUES",
    f"INSERT INTO {T} (a, b) VALUES (default, 'x'), (2, 'y')": "DEFAULT is not taken in VALUES",
    f"INSERT INTO {T} VALUES default": "DEFAULT is not taken in VALUES",
    f"COPY INTO {T} FROM '/in' FILEFORMAT = CSV FILES = ('a')": "expected the end of the statement",
    f"COPY INTO {T} FROM '/in' FILEFORMAT = CSV COPY_OPTIONS ('validate' = 'true')": "is not an option of COPY INTO",
}


@pytest.mark.parametrize(("text", "detail"), REFUSED.items(), ids=range(len(REFUSED)))
def test_a_text_outside_of_the_grammar_is_refused(text, detail):
    with pytest.raises(InvalidStatementError) as raised:
        parse_statement(text)
    assert detail in raised.value.detail


@pytest.mark.parametrize("text", ["SELECT 1", "WITH a AS (SELECT 1) SELECT * FROM a"])
def test_the_error_of_a_query_says_where_it_is_taken(text):
    with pytest.raises(SqlTextError, match="Remedy: give a query whose rows are to be written as query= of DeltaSqlOperator"):
        parse_statement(text)


@pytest.mark.parametrize(
    ("text", "column", "remedy"),
    [
        (f"WITH x (a) AS (SELECT 1) INSERT INTO {T} SELECT * FROM x", 26, "write WITH behind the table that is changed"),
        (f"with x AS (TABLE y) insert overwrite TABLE {T} TABLE x", 21, "write WITH behind the table that is changed"),
        (f"WITH x AS (TABLE y) MERGE INTO {T} USING x ON true", 21, "write WITH behind the table that is changed"),
        (f"FROM y INSERT INTO {T} SELECT *", 8, "write FROM behind the SELECT, both behind the table that is changed"),
    ],
)
def test_a_statement_behind_its_with_or_from_is_no_query_and_the_error_says_where_these_stand(text, column, remedy):
    assert not is_query(text)
    with pytest.raises(SqlTextError, match="as the first word") as raised:
        parse_statement(text)
    assert (raised.value.column, raised.value.instead) == (column, remedy)


@pytest.mark.parametrize(
    "text",
    [
        f"WITH insert AS (SELECT 1) SELECT * FROM insert, {T}",
        f"FROM {T} SELECT `INSERT`, into",
        f"WITH x AS (SELECT 1) SELECT 'INSERT INTO {T}'",
        f"WITH x AS (TABLE {T}) INSERT INTO hive_table TABLE x",
    ],
)
def test_a_text_that_changes_no_table_here_stays_a_query(text):
    assert is_query(text)


def test_an_error_says_where_what_and_what_to_do_and_survives_json():
    with pytest.raises(SqlTextError) as raised:
        parse_statement(f"-- nightly\nVACUUM {T}\n  RETAIN 3 DAYS")
    error = raised.value
    assert (error.statement, error.line, error.column) == ("VACUUM", 3, 12)
    assert str(error) == (
        "[DELTA_INVALID_SQL_TEXT] the text of VACUUM is not valid at line 3, column 12: expected HOURS, found 'DAYS'. "
        "Remedy: correct the text."
    )
    rebuilt = DeltaError.from_json(error.to_json())
    assert isinstance(rebuilt, SqlTextError)
    assert rebuilt.attributes() == error.attributes()


def test_the_place_of_a_name_that_is_not_known_is_that_of_the_name():
    with pytest.raises(SqlTextError) as raised:
        parse_statement("DELETE FROM a.b WHERE x = 1")
    assert (raised.value.line, raised.value.column) == (1, 13)


def test_a_given_table_stands_for_the_name_in_the_text():
    given = TextContext(table="/t")
    assert parse_statement("DELETE FROM flights WHERE flights.day = 1", given) == DeleteStatement(
        table="/t", where="target.day = 1"
    )
    assert parse_statement(f"OPTIMIZE {T}", given) == OptimizeStatement(table="/t")
    with pytest.raises(SqlTextError, match="the text is about /u, and the table that was given is /t"):
        parse_statement("OPTIMIZE delta.`/u`", given)


def test_a_catalog_resolves_names_and_a_reader_of_times_times():
    context = TextContext(
        resolve=lambda parts: "/lake/" + "/".join(parts),
        time=lambda text: int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000),
    )
    assert parse_statement("RESTORE TABLE sales.`the orders` TO TIMESTAMP AS OF '1970-01-02'", context) == RestoreStatement(
        table="/lake/sales/the orders", timestamp=86_400_000
    )
    merged = parse_statement("MERGE INTO sales.o USING sales.n ON o.id = n.id WHEN MATCHED THEN DELETE", context)
    assert (merged.table, merged.source, merged.on) == (
        "/lake/sales/o",
        TableSource("/lake/sales/n"),
        "target.id = source.id",
    )


def test_a_format_named_delta_is_no_path_unless_its_second_part_is_quoted_and_has_a_slash():
    for name in ("delta.events", "delta.`events`", "x.delta.`/t`", "parquet.`/t`"):
        with pytest.raises(SqlTextError, match="is the name of a catalog"):
            parse_statement(f"OPTIMIZE {name}")


@pytest.mark.parametrize(
    ("text", "is_ours"),
    [
        (f"SELECT * FROM {T}", False),
        (f"(SELECT * FROM {T})", False),
        (f"WITH x AS (SELECT 1) SELECT * FROM {T}", False),
        ("SHOW TABLES", False),
        ("DESCRIBE TABLE x", False),
        ("INSERT INTO hive_table SELECT 1", False),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", False),
        ("SET x = 1", False),
        (f"CREATE TEMPORARY VIEW v AS SELECT * FROM {T}", True),
        (f"INSERT INTO hive_table SELECT * FROM {T}", True),
        ("OPTIMIZE x", True),
        ("DESC HISTORY x", True),
        ("CONVERT TO DELTA parquet.`/t`", True),
        (f"EXPLAIN SELECT * FROM {T}", True),
    ],
)
def test_what_names_no_table_here_and_is_spark_s_own_is_left_to_spark(text, is_ours):
    assert is_statement(text) is is_ours


def test_tables_of_a_text_are_those_of_absolute_paths_outside_of_texts_and_comments():
    text = (
        "SELECT delta.`id`, 'delta.`/a`' FROM Delta . `/b` delta, x.delta.`/c` -- delta.`/d`\n, delta.`s3://e` VERSION AS OF 2"
    )
    assert [(table.path, table.version) for table in tables_of_text(text)] == [("/b", None), ("s3://e", 2)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT * FROM sales.orders", "SELECT * FROM v AS `orders`"),
        ("SELECT orders.id FROM sales.orders WHERE orders.id > 1", "SELECT orders.id FROM v AS `orders` WHERE orders.id > 1"),
        ("SELECT * FROM sales.orders o JOIN x ON o.id = x.id", "SELECT * FROM v o JOIN x ON o.id = x.id"),
        ("SELECT * FROM x JOIN main.sales.`orders` AS o USING (id)", "SELECT * FROM x JOIN v AS o USING (id)"),
        ("SELECT * FROM sales.orders VERSION AS OF 3 WHERE id = 1", "SELECT * FROM v AS `orders` WHERE id = 1"),
        ("SELECT * FROM sales.orders VERSION AS OF 3 AS o", "SELECT * FROM v AS o"),
        ("SELECT * FROM x LEFT JOIN sales.orders ON true", "SELECT * FROM x LEFT JOIN v AS `orders` ON true"),
        ("SELECT * FROM x JOIN sales.orders ref ON x.a = ref.a", "SELECT * FROM x JOIN v ref ON x.a = ref.a"),
        ("SELECT * FROM sales.orders date WHERE date.d = 1", "SELECT * FROM v date WHERE date.d = 1"),
        ("SELECT * FROM sales.orders NATURAL JOIN x", "SELECT * FROM v AS `orders` NATURAL JOIN x"),
        ("SELECT * FROM sales.orders TABLESAMPLE (5 ROWS) o", "SELECT * FROM v TABLESAMPLE (5 ROWS) o"),
        ("SELECT * FROM sales.orders LIMIT 1", "SELECT * FROM v AS `orders` LIMIT 1"),
        ("SELECT * FROM x, ((sales.orders o) JOIN y)", "SELECT * FROM x, ((v o) JOIN y)"),
        ("SELECT * FROM f(TABLE(sales.orders)), x", "SELECT * FROM f(TABLE(v)), x"),
        ("SELECT * FROM f(t => TABLE sales.orders)", "SELECT * FROM f(t => TABLE v)"),
        ("SELECT a IS NOT DISTINCT FROM sales.orders FROM x", "SELECT a IS NOT DISTINCT FROM sales.orders FROM x"),
        ("SELECT trim(BOTH 'x' FROM sales.orders), 1 FROM x", "SELECT trim(BOTH 'x' FROM sales.orders), 1 FROM x"),
        (
            "SELECT (WITH w AS (SELECT 1) SELECT 2 FROM sales.orders)",
            "SELECT (WITH w AS (SELECT 1) SELECT 2 FROM v AS `orders`)",
        ),
        ("FROM x.where AS a, sales.orders SELECT 1", "FROM x.where AS a, v AS `orders` SELECT 1"),
        ("SELECT x.from, sales.orders FROM x", "SELECT x.from, sales.orders FROM x"),
        ("TABLE sales.orders", "TABLE v"),
        ("SELECT sales.orders.id FROM x", "SELECT sales.orders.id FROM x"),
        ("SELECT extract(year FROM sales.orders) FROM x", "SELECT extract(year FROM sales.orders) FROM x"),
        ("SELECT * FROM sales.orders(1)", "SELECT * FROM sales.orders(1)"),
        (
            "SELECT 'FROM sales.orders' FROM orders -- FROM sales.orders",
            "SELECT 'FROM sales.orders' FROM orders -- FROM sales.orders",
        ),
        ("SELECT * FROM a.main.sales.orders", "SELECT * FROM a.main.sales.orders"),
        (
            "SELECT * FROM x AS a, sales.orders o, (SELECT 1, 2), sales.orders",
            "SELECT * FROM x AS a, v o, (SELECT 1, 2), v AS `orders`",
        ),
        ("SELECT * FROM x JOIN y ON x.a = y.a, sales.orders", "SELECT * FROM x JOIN y ON x.a = y.a, v AS `orders`"),
        (
            "SELECT 1, sales.orders FROM x WHERE a IN (1, sales.orders)",
            "SELECT 1, sales.orders FROM x WHERE a IN (1, sales.orders)",
        ),
        ("SELECT * FROM x ORDER BY a, sales.orders", "SELECT * FROM x ORDER BY a, sales.orders"),
        (
            "FROM x JOIN y USING (a, sales.orders) SELECT 1, sales.orders",
            "FROM x JOIN y USING (a, sales.orders) SELECT 1, sales.orders",
        ),
    ],
)
def test_names_that_a_catalog_knows_are_tables_of_a_query_and_others_stay(text, shown):
    known = {("sales", "orders"): "/o", ("main", "sales", "orders"): "/o"}
    for table in reversed(tables_of_text(text, known.get)):
        assert table.path == "/o"
        text = f"{text[: table.start]}{table.as_view('v')}{text[table.end :]}"
    assert text == shown


def test_the_query_of_a_statement_reads_the_tables_that_the_catalog_knows():
    context = TextContext(resolve=lambda parts: "/" + "/".join(parts), find={("sales", "feed"): "/feed"}.get)
    found = parse_statement(
        "INSERT INTO sales.orders SELECT * FROM sales.feed VERSION AS OF 2 JOIN other.feed USING (id)", context
    )
    assert found.table == "/sales/orders"
    assert found.source.query == "SELECT * FROM delta_0 AS `feed` JOIN other.feed USING (id)"
    assert found.source.views == {"delta_0": TableSource("/feed", version=2)}


def test_a_table_with_a_name_is_made_where_the_catalog_places_it():
    placed = []

    def place(parts, location):
        placed.append((parts, location))
        return location or "/warehouse/orders"

    context = TextContext(resolve=lambda parts: None, place=place)
    for text, table in (
        ("CREATE TABLE sales.orders (id BIGINT) USING delta", "/warehouse/orders"),
        ("CREATE TABLE sales.orders (id BIGINT) USING delta LOCATION '/o'", "/o"),
        ("CREATE TABLE sales.orders SHALLOW CLONE delta.`/a` LOCATION '/o'", "/o"),
        ("CREATE TABLE delta.`/p` (id BIGINT) USING delta", "/p"),
    ):
        assert parse_statement(text, context).table == table
    assert placed == [(("sales", "orders"), None), (("sales", "orders"), "/o"), (("sales", "orders"), "/o")]


@pytest.mark.parametrize(
    ("query", "changed", "views"),
    [
        ("SELECT day FROM sales.feed VERSION AS OF 2 GROUP BY day", "SELECT day FROM delta_0 AS `feed` GROUP BY day", 2),
        ("WITH q AS (SELECT * FROM sales.feed f) SELECT * FROM q, a.b.c", None, None),
        ("SELECT * FROM other.feed", "SELECT * FROM other.feed", ()),
        ("SELECT 'x FROM sales.feed", "SELECT 'x FROM sales.feed", ()),
    ],
    ids=["a version", "inside of a query", "a name of Spark's", "no SQL"],
)
def test_a_query_has_the_tables_that_the_catalog_knows_as_views(query, changed, views):
    found = with_named_views(SqlSource(query), {("sales", "feed"): "/feed"}.get)
    changed = changed or "WITH q AS (SELECT * FROM delta_0 f) SELECT * FROM q, a.b.c"
    expected = {} if views == () else {"delta_0": TableSource("/feed", version=views)}
    assert found == SqlSource(changed, views=expected)


@pytest.mark.parametrize(
    ("name", "where", "expected"),
    [
        ("sales.orders", "sales.orders.id = 1 AND orders.id = sales.x", "target.id = 1 AND target.id = sales.x"),
        ("main.sales.orders", "MAIN.sales.`orders`.s.a = 1 AND sales.orders.id = 2", "target.s.a = 1 AND target.id = 2"),
        ("sales.orders AS o", "o.id = 1 AND sales.orders.id = 2", "target.id = 1 AND sales.orders.id = 2"),
        ("sales.orders", "orders = 1 AND orders.sales.orders = 2", "orders = 1 AND target.sales.orders = 2"),
        (
            "sales.orders",
            "orders.id = 1 AND sales > 0 AND exists(items, i -> i.sales > 0)",
            "target.id = 1 AND sales > 0 AND exists(items, i -> i.sales > 0)",
        ),
    ],
)
def test_columns_are_named_by_the_tables_name_or_its_last_parts(name, where, expected):
    context = TextContext(resolve=lambda parts: "/" + "/".join(parts))
    assert parse_statement(f"DELETE FROM {name} WHERE {where}", context).where == expected


def test_tables_of_one_name_in_two_schemas_are_told_apart_by_their_schemas():
    context = TextContext(resolve=lambda parts: "/" + "/".join(parts))
    text = "MERGE INTO a.orders USING b.orders ON {} WHEN MATCHED THEN DELETE"
    assert parse_statement(text.format("a.orders.id = b.orders.id"), context).on == "target.id = source.id"
    with pytest.raises(SqlTextError, match=r"'orders.id' may be of the target or of the source"):
        parse_statement(text.format("orders.id = b.orders.id"), context)
    with pytest.raises(SqlTextError, match="the same alias 'orders'"):
        parse_statement(text.replace("b.orders ON", "b.feed AS orders ON").format("orders.id = 1"), context)


@pytest.mark.parametrize("variable", ["sales", "(i, sales)"])
def test_a_variable_of_a_lambda_function_that_bears_the_name_of_the_schema_is_refused(variable):
    context = TextContext(resolve=lambda parts: "/" + "/".join(parts))
    with pytest.raises(SqlTextError, match="ambiguous inside"):
        parse_statement(f"DELETE FROM sales.orders WHERE orders.id = 1 AND exists(items, {variable} -> sales.x > 0)", context)


def test_a_column_is_assigned_by_its_name_in_full_and_a_struct_called_target_by_backticks():
    context = TextContext(resolve=lambda _: "/t")
    text = "UPDATE sales.orders SET sales.orders.amount = 1, orders.s.a = sales.orders.s.b, orders.target.id = 2"
    assert parse_statement(text, context).assignments == {"amount": "1", "s.a": "target.s.b", "`target`.id": "2"}
    merge = parse_statement(
        """
        MERGE INTO sales.orders USING raw.news ON sales.orders.id = raw.news.id
        WHEN MATCHED THEN UPDATE SET sales.orders.v = raw.news.v
        """,
        context,
    )
    assert (merge.on, dict(merge.clauses[0].assignments)) == ("target.id = source.id", {"v": "source.v"})
