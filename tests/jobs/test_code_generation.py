"""Which statements run interpreted over Spark Connect, without code generation."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import (
    AddConstraint,
    AlterStatement,
    DeleteStatement,
    MergeStatement,
    SqlSource,
    TableSource,
    WriteStatement,
)
from airflow_delta.core.statements.clauses import UPSERT
from airflow_delta.jobs import code_generation
from airflow_delta.jobs.code_generation import CodeGeneration

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


class Session:
    """A session that only has settings."""

    def __init__(self):
        self.settings = {}
        self.conf = SimpleNamespace(set=self.settings.__setitem__, unset=self.settings.pop)


@pytest.fixture
def tables(tmp_path):
    """A table that counts as small and one that does not, by name."""
    for name, rows in (("small", 10), ("large", 10_000)):
        write_deltalake(tmp_path / name, pa.table({"id": range(rows)}))
    return {name: str(tmp_path / name) for name in ("small", "large")}


def merged(target, source):
    return MergeStatement(table=target, source=source, on="target.id = source.id", clauses=UPSERT)


def settings(*statements, given=()):
    """The session's settings before the last of some statements runs."""
    session = Session()
    generation = CodeGeneration(session, given)
    for statement in statements:
        generation.suit(DeltaLog.for_table(statement.table), statement)
    return session.settings


def test_queries_are_interpreted_when_all_tables_of_the_statement_are_small(tables, monkeypatch):
    monkeypatch.setattr(code_generation, "MOST_BYTES", 4_000)
    small, large = tables["small"], tables["large"]

    assert settings(DeleteStatement(table=small, where="id = 1")) == INTERPRETED
    assert settings(merged(small, TableSource(small))) == INTERPRETED
    assert settings(DeleteStatement(table=large, where="id = 1")) == {}
    assert settings(merged(small, TableSource(large))) == {}
    assert settings(merged(large, TableSource(small))) == {}


def test_the_version_that_the_source_is_read_at_counts(tables, monkeypatch):
    small = tables["small"]
    write_deltalake(small, pa.table({"id": range(10_000)}), mode="append")
    monkeypatch.setattr(code_generation, "MOST_BYTES", 4_000)
    other = small.replace("small", "other")
    write_deltalake(other, pa.table({"id": [1]}))

    assert settings(merged(other, TableSource(small, version=0))) != {}
    assert settings(merged(other, TableSource(small))) == {}


def test_rows_of_unknown_number_are_not_taken_for_few(tables):
    small = tables["small"]

    assert settings(merged(small, SqlSource("SELECT 1 AS id"))) == {}
    assert settings(WriteStatement(table=small, source=TableSource(small))) == {}


def test_each_statement_of_a_session_is_suited(tables, monkeypatch):
    monkeypatch.setattr(code_generation, "MOST_BYTES", 4_000)
    small = DeleteStatement(table=tables["small"], where="id = 1")
    large = DeleteStatement(table=tables["large"], where="id = 1")
    rule = AlterStatement(table=tables["large"], changes=[AddConstraint("positive", "id > 0")])

    assert settings(small, small) == INTERPRETED
    assert settings(small, large) == settings(small, rule) == {}
    assert settings(small, large, small) == INTERPRETED


def test_what_the_user_has_set_stays(tables):
    small = DeleteStatement(table=tables["small"], where="id = 1")
    assert settings(small, given=["spark.sql.codegen.wholeStage"]) == {}
    assert settings(small, given=["spark.sql.ansi.enabled"]) == INTERPRETED
