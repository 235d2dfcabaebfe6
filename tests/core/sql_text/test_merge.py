"""MERGE INTO as one text, split into a statement."""

import pytest

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.sql_text import merge_statement
from airflow_delta.core.statements import (
    UPSERT,
    Expectation,
    FileSource,
    MatchedDelete,
    MatchedUpdate,
    MergeStatement,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    SqlSource,
    TableSource,
)

FEED = FileSource("/feed", format="csv")


def split(text, **arguments):
    return merge_statement(text, **{"table": "s3://lake/flights", **arguments})


def test_a_whole_statement_becomes_what_it_says():
    text = """
        -- nightly; WHEN MATCHED THEN DELETE stays a comment
        MERGE WITH SCHEMA EVOLUTION INTO lake.flights AS t
        USING (SELECT *, 'WHEN MATCHED' AS w FROM feed WHERE day IN (1, 2)) s
        ON t.flight = s.flight AND t.day = s.day /* AND t.x = s.x */
        WHEN MATCHED AND s.cancelled AND CASE WHEN t.n > 1 THEN true ELSE false END THEN DELETE
        when matched and t.note <> 'WHEN NOT MATCHED; THEN' then update set *
        WHEN NOT MATCHED BY TARGET AND s.n >= 1 THEN INSERT (flight, `the day`) VALUES (s.flight, greatest(s.day, 3))
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND t.day < 5 THEN
            UPDATE SET t.note = concat('a, b = ', t.note), n = CASE WHEN t.n = 1 THEN 2 END
        WHEN NOT MATCHED BY SOURCE THEN DELETE;
    """
    assert split(text, views={"feed": FEED}, expect="n > 0", dry_run=True) == MergeStatement(
        table="s3://lake/flights",
        source=SqlSource("SELECT *, 'WHEN MATCHED' AS w FROM feed WHERE day IN (1, 2)", views={"feed": FEED}),
        on="target.flight = source.flight AND target.day = source.day",
        clauses=(
            MatchedDelete(condition="source.cancelled AND CASE WHEN target.n > 1 THEN true ELSE false END"),
            MatchedUpdate(condition="target.note <> 'WHEN NOT MATCHED; THEN'"),
            NotMatchedInsert(
                condition="source.n >= 1",
                assignments={"flight": "source.flight", "the day": "greatest(source.day, 3)"},
            ),
            NotMatchedInsert(),
            NotMatchedBySourceUpdate(
                condition="target.day < 5",
                assignments={"note": "concat('a, b = ', target.note)", "n": "CASE WHEN target.n = 1 THEN 2 END"},
            ),
            NotMatchedBySourceDelete(),
        ),
        schema_evolution=True,
        expect=(Expectation("n > 0"),),
        dry_run=True,
    )


def test_keywords_behind_a_dot_are_names_of_columns():
    text = """MERGE INTO t USING s ON t.when = s.when
        WHEN MATCHED AND s.then < t.end THEN UPDATE SET n = CASE WHEN s.end > 3 THEN s.case WHEN s.n > 1 THEN 2 END
        WHEN NOT MATCHED THEN INSERT *"""
    merged = split(text)
    assert merged.on == "target.when = source.when"
    assert merged.clauses == (
        MatchedUpdate(
            condition="source.then < target.end",
            assignments={"n": "CASE WHEN source.end > 3 THEN source.case WHEN source.n > 1 THEN 2 END"},
        ),
        NotMatchedInsert(),
    )


@pytest.mark.parametrize(
    ("using", "arguments", "source"),
    [
        ("feed", {}, SqlSource("SELECT * FROM `feed`")),
        ("db.feed s", {}, SqlSource("SELECT * FROM `db`.`feed`")),
        ("feed AS s", {"views": {"feed": FEED}}, FEED),
        ("feed s", {"source": TableSource("x", version=3)}, TableSource("x", version=3)),
        ("delta.`s3://lake/feed` s", {}, TableSource("s3://lake/feed")),
        ("(SELECT 1 AS id) s", {}, SqlSource("SELECT 1 AS id")),
        (
            "(SELECT (1) AS id FROM source) AS s",
            {"source": FEED},
            SqlSource("SELECT (1) AS id FROM source", views={"source": FEED}),
        ),
        ("(SELECT 1 AS id)", {}, SqlSource("SELECT 1 AS id")),
    ],
)
def test_the_source_is_a_name_a_path_or_a_query(using, arguments, source):
    text = f"MERGE INTO target USING {using} ON id = x WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    assert split(text, **arguments) == MergeStatement(table="s3://lake/flights", source=source, on="id = x", clauses=UPSERT)


@pytest.mark.parametrize(
    ("target", "uri"), [("delta.`/data/flights` t", "/data/flights"), ("delta.`s3://lake/a b` AS t", "s3://lake/a b")]
)
def test_a_path_in_the_text_is_the_table(target, uri):
    statement = merge_statement(f"MERGE INTO {target} USING s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert (statement.table, statement.on) == (uri, "target.id = source.id")


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("t.id = s.id", "target.id = source.id"),
        ("T.id = `s`.id", "target.id = source.id"),
        ("x.t.id = s.t.s", "x.t.id = source.t.s"),
        ("t = s AND st.id = ts.id", "t = s AND st.id = ts.id"),
        ("'t.id' = s.é AND \"s.x\" = t.`s.y`", "'t.id' = source.é AND \"s.x\" = target.`s.y`"),
        ("t.id = s.id -- t.x\n AND t.n = 1", "target.id = source.id -- t.x\n AND target.n = 1"),
        ("exists(t.list, e -> e.x = s.id)", "exists(target.list, e -> e.x = source.id)"),
    ],
)
def test_only_aliases_are_said_otherwise(on, expected):
    assert split(f"MERGE INTO f t USING feed s ON {on} WHEN MATCHED THEN DELETE").on == expected


@pytest.mark.parametrize(
    ("assigned", "path"),
    [("a", "a"), ("t.a", "a"), ("a.b", "a.b"), ("T.a.b", "a.b"), ("t.`a.b`.c", "`a.b`.c"), ("`t`", "t"), ("`a.b`", "`a.b`")],
)
def test_columns_and_members_of_structs_are_assigned(assigned, path):
    statement = split(f"MERGE INTO f t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {assigned} = s.a.b")
    assert statement.clauses == (MatchedUpdate(assignments={path: "source.a.b"}),)


def test_sides_may_bear_each_others_names():
    statement = split("MERGE INTO a AS source USING b AS target ON source.id = target.x WHEN MATCHED THEN DELETE")
    assert statement.on == "target.id = source.x"


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("DELETE FROM t", "expected MERGE, found"),
        ("MERGE INTO t USING s WHEN MATCHED THEN DELETE", "expected ON, found"),
        ("MERGE INTO t USING s ON t.id = s.id", "one clause or more"),
        ("MERGE INTO t USING s ON WHEN MATCHED THEN DELETE", "expected an expression behind ON"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN", "expected UPDATE, found the end of the text"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED DELETE", "expected THEN"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN INSERT *", "expected UPDATE, found 'INSERT *'"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN DELETE", "expected INSERT, found 'DELETE'"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "has no source row"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED BY THEN DELETE", "expected TARGET"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET a", "expected column = expression, found 'a'"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET a = 1, t.A = 2", "assigned twice"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET = 1", "expected a column"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET a.b = 1, t.A.B = 2", "A.B is assigned twice"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)", "2 columns and 1 values"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (1)", "expected a column list, or *"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE", "last clause"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE; SELECT 1", "expected WHEN, found 'SELECT 1'"),
        ("MERGE INTO t USING s VERSION AS OF 3 ON t.id = s.id WHEN MATCHED THEN DELETE", "stands behind delta"),
        ("MERGE INTO t USING t ON t.id = 1 WHEN MATCHED THEN DELETE", "same alias"),
        ("MERGE INTO t USING s ON target.id = s.id WHEN MATCHED THEN DELETE", "neither the target"),
        ("MERGE INTO t USING s ON t.id = (SELECT max(t.id) FROM u t) WHEN MATCHED THEN DELETE", "an alias is ambiguous"),
        ("MERGE INTO t USING s ON exists(s.l, t -> t.id = 1) WHEN MATCHED THEN DELETE", "an alias is ambiguous"),
        ("MERGE INTO t USING s ON t.id = 'x", "not valid SQL"),
        ("MERGE INTO t USING (SELECT 1", "expected ), found the end of the text"),
        ("", "expected MERGE, found the end of the text"),
    ],
)
def test_what_cannot_be_split_is_refused_with_its_place(text, detail):
    with pytest.raises(InvalidStatementError) as raised:
        split(text)
    assert detail in raised.value.detail


def test_a_name_alone_is_no_table():
    with pytest.raises(InvalidStatementError) as raised:
        merge_statement("MERGE INTO db.t USING s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert "URI is not known" in raised.value.detail
