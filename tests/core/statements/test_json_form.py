"""Statements go through JSON unchanged, and only what the registry names comes back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import (
    UPSERT,
    CheckpointStatement,
    Expectation,
    FileSource,
    MatchedDelete,
    MatchedUpdate,
    MergeStatement,
    NotMatchedInsert,
    OptimizeStatement,
    SqlSource,
    TableSource,
    VacuumStatement,
    WriteStatement,
)
from airflow_delta.core.statements.json_form import map_texts, statement_from_json, to_json

texts = st.text(min_size=1).filter(str.strip)
maps = st.dictionaries(st.text(min_size=1).filter(lambda key: key != "$type"), st.text(), max_size=3)
versions = st.none() | st.integers(min_value=0)
tables = st.builds(TableSource, texts, version=versions) | st.builds(TableSource, texts, timestamp=st.integers() | texts)
files = st.builds(FileSource, texts, format=texts, options=maps, schema=st.none() | texts)
sources = tables | files | st.builds(SqlSource, texts, views=st.dictionaries(maps.map(str), tables | files, max_size=2))
expectations = st.lists(st.builds(Expectation, texts, name=st.none() | st.text()) | texts, max_size=2)
assignments = st.none() | st.dictionaries(
    st.text(min_size=1).filter(lambda key: key != "$type"), st.text(), min_size=1, max_size=3
)
clauses = st.lists(
    st.builds(MatchedUpdate, condition=texts, assignments=assignments)
    | st.builds(MatchedDelete, condition=texts)
    | st.builds(NotMatchedInsert, condition=texts, assignments=assignments),
    min_size=1,
    max_size=4,
)
statements = (
    st.builds(
        MergeStatement, table=texts, source=sources, on=texts, clauses=clauses, expect=expectations, dry_run=st.booleans()
    )
    | st.builds(WriteStatement, table=texts, source=sources, expect=expectations, properties=maps, partition_by=st.lists(texts))
    | st.builds(OptimizeStatement, table=texts, where=st.none() | texts, target_file_size=st.none() | st.integers(min_value=1))
    | st.builds(VacuumStatement, table=texts, retention_hours=st.none() | st.floats(0, 1e6), enforce_retention=st.booleans())
    | st.builds(CheckpointStatement, table=texts, version=versions)
)


@given(statements)
def test_every_statement_survives_json(statement):
    assert statement_from_json(json.loads(json.dumps(to_json(statement)))) == statement


@given(statements)
def test_mapping_texts_to_themselves_gives_an_equal_statement(statement):
    assert map_texts(statement, lambda text: text) == statement


@pytest.mark.parametrize(
    "document",
    [
        {"$type": "os.system", "command": "true"},
        {"$type": "merge", "table": "t", "shell": "true"},
        {"$type": "merge", "table": "t"},
        {"$type": ["merge"]},
        {"$type": "expectation", "sql": "a > 0"},
        ["merge"],
        "merge",
        None,
    ],
)
def test_a_document_that_is_no_statement_is_refused(document):
    with pytest.raises(InvalidStatementError):
        statement_from_json(document)


def test_a_template_that_was_never_rendered_does_not_travel():
    statement = MergeStatement(table="t", source=TableSource("s", version="{{ version }}"), on="a = b")
    with pytest.raises(InvalidStatementError, match="no number"):
        to_json(statement)
    assert to_json(map_texts(statement, lambda text: "7" if "{{" in text else text))["source"]["version"] == 7


def test_a_mapping_cannot_pose_as_a_typed_value():
    with pytest.raises(InvalidStatementError):
        to_json(WriteStatement(table="t", source=TableSource("s"), properties={"$type": "merge"}))


def test_upsert_is_update_then_insert():
    assert (MatchedUpdate(), NotMatchedInsert()) == UPSERT
