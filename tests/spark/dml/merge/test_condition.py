"""The condition of a MERGE, taken apart."""

import pytest

from airflow_delta.core.schema import PrimitiveType, StructField, StructType
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.spark.constraints.column_references import column_references, qualified, unqualified
from airflow_delta.spark.dml.merge.condition import parse_condition

SCHEMA = StructType(tuple(StructField(name, PrimitiveType("long")) for name in ("id", "day", "x", "a b")))


def keys(text):
    return [(key.column, key.other) for key in parse_condition(text, SCHEMA).keys]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("target.id = source.id", [("id", "source.id")]),
        ("source.id=target.ID", [("id", "source.id")]),
        ("TARGET.id == Source.id", [("id", "Source.id")]),
        ("target.id = source.x + 1 AND target.day IS NOT NULL", [("id", "source.x + 1")]),
        ("target.`a b` = date_add(source.d, 1) -- why", [("a b", "date_add(source.d, 1)")]),
        (
            "target.id = source.id\n  AND target.day = to_date(source.t, 'x AND y')",
            [("id", "source.id"), ("day", "to_date(source.t, 'x AND y')")],
        ),
        ("target.id = source.id AND (target.x = source.x OR source.x IS NULL)", [("id", "source.id")]),
        ("target.id = CASE WHEN source.a < 1 THEN 2 END", [("id", "CASE WHEN source.a < 1 THEN 2 END")]),
        ("NOT target.id = source.id AND target.x = source.x", [("x", "source.x")]),
    ],
)
def test_equalities_with_a_target_column_are_keys_and_keep_their_text(text, expected):
    assert keys(text) == expected


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("source.id", "id"),
        ("SOURCE.ID", "ID"),
        ("source.`a b`", "a b"),
        ("`Source`.x", "x"),
        ("id", None),  # which is the target's, too
        ("target.x", None),
        ("source.id + 0", None),
        ("-source.id", None),
        ("(source.id)", None),
        ("source.id.member", None),
        ("source.id[0]", None),
        ("source.*", None),
        ("CAST(source.id AS BIGINT)", None),
        ("source.id::bigint", None),
        ("7", None),
    ],
)
def test_only_a_column_of_the_source_alone_is_known_by_its_name(other, expected):
    for text in (f"target.id = {other}", f"{other} = target.id"):
        condition = parse_condition(text, SCHEMA)
        assert [key.source_column for key in condition.keys] == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "target.id = source.id OR target.x = source.x",
        "target.id = +source.id",  # of a text a number
        "+target.id = source.id",
        "target.id = source.id AND target.x = 1 OR target.x = 2",
        "target.id <=> source.id",
        "target.id = source.id < 5",  # (target.id = source.id) < 5, and so on
        "target.id = source.id IN (1)",
        "target.id = source.id BETWEEN 1 AND 2",
        "target.id = source.id LIKE '1%'",
        "target.id = ! source.id",
        "target.id = CASE WHEN source.a THEN 2 END < 5",
        "target.id = source.id --\\\n+ 1",  # a comment to Spark, to its end
        "NOT target.id = source.id",
        "target.id = source.id = true",
        "target.id = CASE WHEN source.a = 1 AND true THEN 2 END",
        "target.x BETWEEN 1 AND 2 AND target.id = source.id",
        "id = source.id",
        "target.id.member = source.id",
        "target.unknown = source.id",
        "cast(target.id AS string) = source.id",
        "no SQL ((",
        "",
    ],
)
def test_what_is_not_certainly_an_equality_of_keys_stays_whole(text):
    condition = parse_condition(text, SCHEMA)
    assert condition.keys == ()
    assert " AND ".join(condition.others) == text


def test_conjuncts_about_the_target_alone_are_predicates_on_the_table():
    condition = parse_condition("target.id = source.id AND target.day >= 5 AND (target.x = 1 OR target.x = 2)", SCHEMA)
    assert list(condition.about_target(SCHEMA)) == ["day >= 5", "(x = 1 OR x = 2)"]


@pytest.mark.parametrize("text", ["target.id > source.x", "id > 5", "target.id > (SELECT max(x) FROM t)", "rand() < 0.5"])
def test_conjuncts_that_may_depend_on_more_are_no_predicates_on_the_table(text):
    assert list(parse_condition(f"target.id = source.id AND {text}", SCHEMA).about_target(SCHEMA)) == []


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["source.id * 2"], ()),
        (["Target.ID", "x + 1"], ("id", "x")),
        (["`a B`"], ("a b",)),
        (["target.day.source.id"], ("id", "day")),
        (["concat(source.id, target.day)"], ("day",)),
        (["struct(target.*)"], ("id", "day", "x", "a b")),
        (["struct(source.*)"], ()),
        (["'unclosed"], ("id", "day", "x", "a b")),
        ([], ()),
    ],
)
def test_every_column_that_a_text_may_take_from_the_target_is_referenced(texts, expected):
    assert column_references(texts, SCHEMA).names == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("target.id = 1", "id = 1"),
        ("target.s.a > 1 AND Target.s.b.c.d = 2", "s.a > 1 AND s.b.c.d = 2"),
        ("s.a > 1", "s.a > 1"),
        ("s.target.a > 1", "s.target.a > 1"),
        ("no SQL ((", "no SQL (("),
    ],
)
def test_a_text_about_the_table_alone_needs_no_name_for_it(text, expected):
    assert unqualified(text, SCHEMA) == expected


def test_a_member_of_a_column_called_target_keeps_its_first_name():
    schema = parse_struct("id BIGINT, target STRUCT<id: BIGINT, kind: STRING>")
    text = "target.kind = 'x' AND TARGET.id = 1 AND target.target.id = 2 AND `target`.nothing = 3"
    assert unqualified(text, schema) == "target.kind = 'x' AND id = 1 AND target.id = 2 AND nothing = 3"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id > 3 AND source.id = id -- id", "target.id > 3 AND source.id = target.id -- id"),
        ("transform(a, id -> id + x)", "transform(a, id -> id + target.x)"),
        ("'id' || `id`", "'id' || target.`id`"),
        ("day(id) + other", "day(target.id) + other"),
        (
            "x.a > 1 AND source.x.a = x.a.b.c.d AND other.x = 1",
            "target.x.a > 1 AND source.x.a = target.x.a.b.c.d AND other.x = 1",
        ),
        ("id IN (SELECT id FROM t)", "id IN (SELECT id FROM t)"),
        ("no SQL ((", "no SQL (("),
    ],
)
def test_columns_that_both_sides_have_get_the_name_of_the_side_that_a_clause_sees(text, expected):
    assert qualified(text, "target", {"id", "x"}) == expected


def test_a_target_column_named_source_makes_every_name_a_reference():
    schema = StructType((StructField("source", SCHEMA), StructField("id", PrimitiveType("long"))))
    assert column_references(["source.id"], schema).names == ("source", "id")
