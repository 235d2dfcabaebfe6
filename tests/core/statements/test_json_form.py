"""Statements go through JSON unchanged, and only what the registry names comes back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import (
    UPSERT,
    AddColumns,
    AddConstraint,
    AddFeature,
    AllowNull,
    AlterStatement,
    CheckpointStatement,
    CleanUpLogStatement,
    CloneStatement,
    ClusterBy,
    CommentColumn,
    CompactLogStatement,
    ConvertStatement,
    CreateStatement,
    DropColumns,
    DropConstraint,
    DropFeature,
    DropStatement,
    Expectation,
    FileSource,
    ManifestStatement,
    MatchedDelete,
    MatchedUpdate,
    MergeStatement,
    MoveColumn,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    OptimizeStatement,
    PythonSource,
    RenameColumn,
    ReorgStatement,
    RestoreStatement,
    SetDefault,
    SetProperties,
    SqlSource,
    StatisticsStatement,
    TableSource,
    UnsetProperties,
    UpgradeProtocol,
    VacuumStatement,
    WidenColumn,
    WriteStatement,
)
from airflow_delta.core.statements.json_form import map_texts, statement_from_json, to_json

texts = st.text(min_size=1).filter(str.strip)
maps = st.dictionaries(st.text(min_size=1).filter(lambda key: key != "$type"), st.text(), max_size=3)
versions = st.none() | st.integers(0, 1 << 60)
times = st.integers(-(1 << 60), 1 << 60) | st.datetimes().map(str)
tables = st.builds(TableSource, texts, version=versions) | st.builds(TableSource, texts, timestamp=times)
files = st.builds(FileSource, texts, format=texts, options=maps, schema=st.none() | texts)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda part: st.lists(part) | st.dictionaries(st.text(), part),
    max_leaves=3,
)
functions = st.builds(
    PythonSource,
    texts,
    arguments=st.dictionaries(texts, tables | files | values, max_size=3),
    code=texts,
    line=st.integers(1, 9),
)
sources = (
    functions | tables | files | st.builds(SqlSource, texts, views=st.dictionaries(maps.map(str), tables | files, max_size=2))
)
expectations = st.lists(st.builds(Expectation, texts, name=st.none() | st.text()) | texts, max_size=2)
assignments = st.none() | st.dictionaries(
    st.text(min_size=1).filter(lambda key: key != "$type"), st.text(), min_size=1, max_size=3
)
clauses = st.lists(
    st.builds(MatchedUpdate, condition=texts, assignments=assignments)
    | st.builds(MatchedDelete, condition=texts)
    | st.builds(NotMatchedInsert, condition=texts, assignments=assignments)
    | st.builds(NotMatchedBySourceDelete, condition=texts)
    | st.builds(NotMatchedBySourceUpdate, condition=texts, assignments=assignments.filter(bool)),
    min_size=1,
    max_size=4,
)
statements = (
    st.builds(
        MergeStatement,
        table=texts,
        source=sources,
        on=texts,
        clauses=clauses,
        schema_evolution=st.booleans(),
        expect=expectations,
        dry_run=st.booleans(),
    )
    | st.builds(
        WriteStatement,
        table=texts,
        source=sources,
        mode=st.sampled_from(["append", "dynamic_overwrite"]),
        partition_by=st.lists(texts),
        merge_schema=st.booleans(),
        expect=expectations,
        properties=maps,
        txn=st.none() | st.tuples(texts, st.integers(0, 1 << 62)),
        user_metadata=st.none() | st.text(),
    )
    | st.builds(OptimizeStatement, table=texts, where=st.none() | texts, target_file_size=st.none() | st.integers(1, 1 << 60))
    | st.builds(OptimizeStatement, table=texts, z_order_by=st.lists(texts).map(tuple), min_files=st.integers(1, 9))
    | st.builds(OptimizeStatement, table=texts, full=st.booleans())
    | st.builds(ReorgStatement, table=texts, where=st.none() | texts, dry_run=st.booleans())
    | st.builds(VacuumStatement, table=texts, retention_hours=st.none() | st.floats(0, 1e6), enforce_retention=st.booleans())
    | st.builds(CheckpointStatement, table=texts, version=versions)
)


names = st.text(min_size=1).filter(str.strip)
bools = st.booleans()
named = st.lists(names, min_size=1, max_size=3)
columns = texts | st.dictionaries(texts, texts, min_size=1, max_size=3)
places = st.sampled_from([{}, {"first": True}, {"after": "a"}])
properties = st.dictionaries(st.text(min_size=1).filter(lambda key: key != "$type"), st.text(), min_size=1, max_size=3)
changes = st.one_of(
    places.flatmap(
        lambda place: st.builds(AddColumns, columns, if_not_exists=bools, **{k: st.just(v) for k, v in place.items()})
    ),
    st.builds(RenameColumn, names, names),
    st.builds(DropColumns, named | names, if_exists=bools),
    st.builds(WidenColumn, names, names),
    st.builds(AllowNull, names),
    st.builds(CommentColumn, names, st.text()),
    st.builds(SetDefault, names, st.none() | names),
    st.builds(MoveColumn, names, after=names) | st.builds(MoveColumn, names, first=st.just(True)),
    st.builds(SetProperties, properties),
    st.builds(UnsetProperties, named, if_exists=bools),
    st.builds(AddConstraint, names, names),
    st.builds(DropConstraint, names, if_exists=bools),
    st.builds(ClusterBy, st.lists(names, max_size=3)),
    st.builds(AddFeature, names),
    st.builds(UpgradeProtocol, st.integers(1, 3), st.integers(1, 7)),
)
modes = st.sampled_from(["error", "ignore", "replace"])
statements_about_tables = st.one_of(
    st.builds(
        CreateStatement,
        table=texts,
        columns=columns,
        partition_by=st.lists(names, max_size=2),
        properties=maps,
        constraints=maps,
        comment=st.none() | st.text(),
        mode=modes,
        dry_run=bools,
    ),
    st.builds(AlterStatement, table=texts, changes=st.lists(changes, min_size=1, max_size=3) | changes, dry_run=bools),
    st.builds(AlterStatement, table=texts, changes=st.builds(DropFeature, names, truncate_history=bools)),
    st.builds(CloneStatement, table=texts, source=tables, deep=bools, mode=modes, properties=maps, dry_run=bools),
    st.builds(
        ConvertStatement, table=texts, partition_by=st.none() | columns, statistics=bools, properties=maps, dry_run=bools
    ),
    st.builds(RestoreStatement, table=texts, version=st.integers(0, 1 << 60), ignore_missing_files=bools, dry_run=bools),
    st.builds(RestoreStatement, table=texts, timestamp=times),
    st.builds(DropStatement, table=texts, table_id=st.none() | texts, delete_files=bools, dry_run=bools),
    st.builds(VacuumStatement, table=texts, lite=bools) | st.builds(VacuumStatement, table=texts, inventory=texts),
    st.builds(CheckpointStatement, table=texts, kind=st.sampled_from(["classic", "multi-part", "v2-json", "v2-parquet"])),
    st.builds(CompactLogStatement, table=texts, start=versions, end=versions),
    st.builds(CleanUpLogStatement, table=texts, dry_run=bools),
    st.builds(StatisticsStatement, table=texts, where=st.none() | texts, missing_only=bools, dry_run=bools),
    st.builds(ManifestStatement, table=texts),
)


@given(statements | statements_about_tables)
def test_every_statement_survives_json(statement):
    assert statement_from_json(json.loads(json.dumps(to_json(statement)))) == statement


@given(statements | statements_about_tables)
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
    with pytest.raises(InvalidStatementError, match="not rendered"):
        to_json(statement)
    assert to_json(map_texts(statement, lambda text: "7" if "{{" in text else text))["source"]["version"] == 7


def test_a_mapping_cannot_pose_as_a_typed_value():
    with pytest.raises(InvalidStatementError):
        to_json(WriteStatement(table="t", source=TableSource("s"), properties={"$type": "merge"}))


def test_upsert_is_update_then_insert():
    assert (MatchedUpdate(), NotMatchedInsert()) == UPSERT
