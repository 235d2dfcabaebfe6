"""The case of names counts as little as in Spark, and names that differ otherwise are two."""

import sys
import unicodedata
from pathlib import Path

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import SchemaMismatchError
from airflow_delta.core.statements import (
    DeleteStatement,
    MatchedUpdate,
    MergeStatement,
    NotMatchedInsert,
    SqlSource,
    UpdateStatement,
)
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.io.scan import read_table
from tests.spark.needs import looks_into_the_jvm
from tests.spark.session_settings import session_settings


@looks_into_the_jvm
def test_names_are_compared_by_the_lower_case_of_java(spark):
    """Java 17 knows Unicode 13; letters that came later are the same to it in no other case."""
    from airflow_delta.core.schema.column_names import name_key  # noqa: PLC0415 - so that the other tests run on older code

    known = [chr(code) for code in range(1, sys.maxunicode + 1) if unicodedata.category(chr(code)) not in ("Cs", "Cn")]
    names = [f"a{sign}b" for sign in known] + [f"a{sign}" for sign in known]
    lower = spark.sparkContext._jvm.org.apache.commons.lang3.StringUtils.lowerCase
    java = lower("\0".join(names), spark.sparkContext._jvm.java.util.Locale.ROOT).split("\0")
    unlike = {name for name, theirs in zip(names, java, strict=True) if name_key(name) != theirs}
    assert all(ord(name[1]) in {0x2C2F, *range(0xA7C0, 0xA7DD), *range(0x10570, 0x10596)} for name in unlike)


@looks_into_the_jvm
def test_names_of_fields_are_compared_as_java_compares_them_ignoring_case(spark):
    from airflow_delta.core.schema.column_names import field_key, name_key  # noqa: PLC0415 - likewise

    letters = [chr(code) for code in range(1, sys.maxunicode + 1) if unicodedata.category(chr(code)) not in ("Cs", "Cn")]
    are_one = spark.sparkContext._jvm.org.apache.commons.lang3.StringUtils.equalsIgnoreCase
    special = [letter for letter in letters if field_key(letter) != name_key(letter)]
    assert {"\u0131", "\u0130", "\u017f", "\u03c2"} <= set(special)
    assert all(are_one(letter, field_key(letter)) for letter in special if ord(letter) < 0x2C00)
    assert not are_one("stra\u00dfe", "strasse")
    assert field_key("stra\u00dfe") != field_key("strasse")


DOTLESS = "\u0131"


@pytest.mark.parametrize(
    ("columns", "source"),
    [
        ("id INT, i INT", f"7 AS `{DOTLESS}`"),
        (f"id INT, i INT, `{DOTLESS}` INT", "7 AS i"),
        ("id INT", f"1 AS i, 2 AS `{DOTLESS}`"),
    ],
    ids=["the source has one, the table the other", "the table has both", "the source has both"],
)
def test_a_write_that_would_fill_a_column_with_another_one_is_refused(write_rows, table, columns, source):
    """Spark, when it makes rows those of a schema, takes an ``i`` with and one without a dot for one name."""
    log = DeltaLog.for_table(table)
    log.create(NewTable(schema=parse_struct(columns)))
    with pytest.raises(SchemaMismatchError, match=f"i and {DOTLESS}: 2 columns of one name to Spark"):
        write_rows(f"SELECT 1 AS id, {source}", merge_schema=True)
    assert log.snapshot().version == 0


@pytest.mark.parametrize("other", ["A", DOTLESS])
def test_a_struct_with_members_of_one_name_is_refused_by_merge_and_update(spark, write_rows, table, other):
    name = "i" if other == DOTLESS else "a"
    write_rows(f"SELECT 1 AS id, NAMED_STRUCT('{name}', 1, 'b', 2L) AS s")
    value, log = f"NAMED_STRUCT('{name}', 5, '{other}', 6, 'b', 7)", DeltaLog.for_table(table)
    matched = MergeStatement(
        table=table, source=SqlSource(f"SELECT 1 AS id, {value} AS s"), on="target.id = source.id", clauses=(MatchedUpdate(),)
    )
    with pytest.raises(SchemaMismatchError, match=r"s\..*: 2 columns of"):
        merge(spark, log, matched)
    with pytest.raises(SchemaMismatchError, match=r"s\..*: 2 columns of"):
        update(spark, log, UpdateStatement(table=table, assignments={"s": value}))


@pytest.fixture
def log(write_rows, table):
    """``straße`` counts up, ``strasse`` down; one file for each row."""
    for number in range(4):
        write_rows(f"SELECT /*+ COALESCE(1) */ {number} AS id, {number} AS `straße`, {3 - number} AS `strasse`")
    return DeltaLog.for_table(table)


def test_dml_takes_the_column_that_is_named(spark, log, reference_rows):
    uri = log.table_uri
    delete(spark, log, DeleteStatement(table=uri, where="STRASSE = 0"))
    assert reference_rows() == [(0, 0, 3), (1, 1, 2), (2, 2, 1)]
    update(spark, log, UpdateStatement(table=uri, assignments={"Strasse": "`Straße` + 10"}, where="`STRAßE` = 2"))
    assert reference_rows() == [(0, 0, 3), (1, 1, 2), (2, 2, 12)]
    source = SqlSource("SELECT 9 AS id, 2 AS strasse, 7 AS `straße`")
    clauses = (MatchedUpdate(assignments={"STRAßE": "source.`STRAßE`"}), NotMatchedInsert())
    merge(spark, log, MergeStatement(table=uri, source=source, on="target.`Strasse` = source.strasse", clauses=clauses))
    assert reference_rows() == [(0, 0, 3), (1, 7, 2), (2, 2, 12)]
    assert [row[0] for row in read_table(spark, log.snapshot(), ["ID"], "strasse = 12").collect()] == [2]


@pytest.mark.parametrize("sensitive", ["false", "true"])
def test_a_file_that_spells_a_column_in_another_case_is_read_in_every_session(spark, write_rows, table, sensitive):
    write_rows("SELECT 7 AS id")
    commit = next(Path(table, "_delta_log").glob("*0.json"))
    commit.write_text(commit.read_text().replace('\\"id\\"', '\\"ID\\"').replace('"id":7', '"ID":7'))
    with session_settings(spark, {"spark.sql.caseSensitive": sensitive}):
        assert read_table(spark, DeltaLog.for_table(table).snapshot()).collect() == [(7,)]


@pytest.mark.parametrize("sensitive", ["false", "true"])
def test_a_merge_takes_every_column_of_a_source_that_spells_them_in_another_case(
    spark, write_rows, table, reference_rows, sensitive
):
    write_rows("SELECT 1 AS id, 'old' AS name")
    source = SqlSource("SELECT * FROM VALUES (1, 'new'), (2, 'more') AS source(Id, NAME)")
    clauses = (MatchedUpdate(), NotMatchedInsert())
    statement = MergeStatement(table=str(table), source=source, on="target.id = source.Id", clauses=clauses)
    with session_settings(spark, {"spark.sql.caseSensitive": sensitive}):
        merge(spark, DeltaLog.for_table(table), statement)
    assert reference_rows() == [(1, "new"), (2, "more")]
