"""Hostile documents of staged commits: what they must not do to a table."""

import json

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_delta.core.errors import (
    InvalidStatementError,
    StagedCommitDamagedError,
    StagedCommitNotFoundError,
    UnfinishedCommitError,
)
from airflow_delta.core.operations.staged_folder import STAGED_FOLDER
from tests.core.faults.scenarios import SCHEMA
from tests.core.operations.staging.staged_table import (
    AREA,
    document,
    rewritten,
    seen_by_others,
)


def test_something_else_than_what_was_checked_is_not_published(table):
    handle = table.stage(3).staged
    path = document(table, handle)
    path.write_text(path.read_text().replace("a.parquet", "b.parquet"))
    with pytest.raises(StagedCommitDamagedError, match="SHA-256"):
        table.log.publish(handle)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"id": "other"},
        {"baseVersion": -5},
        {"baseVersion": -1},
        {"baseVersion": "1"},
        {"tableId": 1},
        {"expires": None},
        {"isolationLevel": "None"},
        {"enforces": "all"},
        {"readPredicates": {}},
        {"readPredicates": [{"and": 1}]},
        {"readPredicates": [{"drop": "table"}]},
        {"readPredicates": [{"is_null": [1]}]},
        {"readPredicates": [{"literal": {"type": "{}", "int": "1"}}]},
        {"readPredicates": [{"compare": "=", "column": ["n"], "literal": {"type": SCHEMA, "int": "x"}}]},
        {"readWholeTable": "yes"},
        {"rowIdHighWaterMark": 1 << 70},
    ],
    ids=str,
)
def test_a_document_that_is_not_what_it_should_be_is_refused(table, changes):
    handle = rewritten(table, table.stage(3).staged, **changes)
    for act in (table.log.publish, table.log.staged, table.log.discard):
        with pytest.raises(StagedCommitDamagedError):
            act(handle)
    assert table.numbers() == [1, 2]
    assert table.log.vacuum().files == 0


@pytest.mark.parametrize("content", ["null", "[]", "{}", "{" * 300, '{"stagedCommit": {}}', "\x00", '{"add": 1}\n{}'], ids=repr)
def test_a_file_that_is_no_document_is_refused(table, content):
    handle = {**table.stage(3).staged, "digest": None}
    document(table, handle).write_text(content)
    with pytest.raises((StagedCommitDamagedError, UnfinishedCommitError)):
        table.log.publish(handle)
    assert table.log.vacuum().files == 0


@pytest.mark.parametrize(("id_", "schema"), [("other", SCHEMA), ("m", "{"), ("m", '{"type": "map"}')], ids=str)
def test_metadata_that_no_table_or_another_one_has_is_refused(table, id_, schema):
    handle = table.stage(3).staged
    metadata = {
        "id": id_,
        "schemaString": schema,
        "partitionColumns": [],
        "configuration": {},
        "format": {"provider": "parquet"},
    }
    with document(table, handle).open("a") as file:
        file.write(json.dumps({"metaData": metadata}) + "\n")
    with pytest.raises(StagedCommitDamagedError):
        table.log.publish({**handle, "digest": None})
    assert table.numbers() == [1, 2]


def test_a_predicate_on_another_kind_of_column_is_refused(table):
    literal = {"type": json.dumps({"type": "struct", "fields": [{"name": "v", "type": "string"}]}), "text": "x"}
    predicate = {"compare": "=", "column": ["n"], "literal": literal}
    handle = rewritten(table, table.stage_replacement("n = 1", 7).staged, readPredicates=[predicate])
    table.append("other.parquet", 100)
    with pytest.raises(StagedCommitDamagedError):
        table.log.publish(handle)


@pytest.mark.parametrize("path", ["../other/x.parquet", "/etc/passwd", "file:///etc/passwd", "s3://elsewhere/x"])
def test_files_outside_of_the_table_are_neither_published_nor_deleted(table, path):
    handle = table.stage(3).staged
    file = document(table, handle)
    file.write_text(file.read_text().replace(f"{AREA}/rows/a.parquet", path))
    handle = {**handle, "digest": None}
    with pytest.raises(StagedCommitDamagedError, match="outside"):
        table.log.publish(handle)
    with pytest.raises(StagedCommitDamagedError, match="outside"):
        table.log.discard(handle)


def test_a_document_that_names_files_of_the_table_as_its_own_deletes_none_of_them(table):
    first = table.stage(3).staged
    table.log.publish(first)
    handle = table.stage(4, name="mine.parquet").staged
    file = document(table, handle)
    file.write_text(file.read_text().replace("mine.parquet", f"{AREA}/rows/a.parquet"))
    assert table.log.discard({**handle, "digest": None}) == 0
    assert table.numbers() == seen_by_others(table) == [1, 2, 3]


@pytest.mark.parametrize("name", ["../../x", "a/b", "", "a.b", "x" * 200, "\U0001d41a" * 100, 5])
def test_an_id_leads_nowhere_else(table, name):
    with pytest.raises(InvalidStatementError):
        table.log.publish({"table": str(table.root), "id": name})


def test_a_handle_of_nothing_publishes_and_discards_nothing_and_reads_the_table_as_it_is(table):
    nothing = {"table": str(table.root), "id": None}
    assert not table.log.publish(nothing).committed
    assert table.log.discard(nothing) == 0
    assert table.log.staged(nothing).snapshot().version == table.log.snapshot().version
    with pytest.raises(StagedCommitNotFoundError):
        table.log.publish({**nothing, "id": "unknown"})


def test_a_decision_that_cannot_be_read_stops_both_sides(table):
    handle = table.stage(3).staged
    (table.root / STAGED_FOLDER / f"{handle['id']}.decision").write_text("neither")
    for act in (table.log.publish, table.log.discard):
        with pytest.raises(StagedCommitDamagedError, match="decision"):
            act(handle)
    assert pc.sum(pa.array(table.numbers())).as_py() == 3
