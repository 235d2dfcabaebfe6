"""Which statements Spark Connect interprets instead of making code for them."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import DeleteStatement, MergeStatement, SqlSource, TableSource, WriteStatement
from airflow_delta.core.statements.clauses import UPSERT
from airflow_delta.jobs import small_statement
from airflow_delta.jobs.small_statement import suit_to_size

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


class Session:
    """A session of Spark Connect that is only set."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self):
        self.settings = {}
        self.conf = SimpleNamespace(set=self.settings.__setitem__, get=self.settings.get, unset=self.settings.pop)


@pytest.fixture
def tables(tmp_path):
    """A small table and one of more bytes than count as small, by name."""
    for name, rows in (("small", 10), ("large", 10_000)):
        write_deltalake(tmp_path / name, pa.table({"id": range(rows)}))
    return {name: str(tmp_path / name) for name in ("small", "large")}


def merged(target, source):
    return MergeStatement(table=target, source=source, on="target.id = source.id", clauses=UPSERT)


def settings(statement, session=None):
    session = session or Session()
    suit_to_size(session, DeltaLog.for_table(statement.table), statement)
    return session.settings


def test_queries_are_interpreted_when_all_tables_of_the_statement_are_small(tables, monkeypatch):
    monkeypatch.setattr(small_statement, "MOST_BYTES", 4_000)
    small, large = tables["small"], tables["large"]

    assert settings(DeleteStatement(table=small, where="id = 1")) == INTERPRETED
    assert settings(merged(small, TableSource(small))) == INTERPRETED
    assert settings(DeleteStatement(table=large, where="id = 1")) == {}
    assert settings(merged(small, TableSource(large))) == {}
    assert settings(merged(large, TableSource(small))) == {}


def test_the_version_that_the_source_is_read_at_counts(tables, monkeypatch):
    small = tables["small"]
    write_deltalake(small, pa.table({"id": range(10_000)}), mode="append")
    monkeypatch.setattr(small_statement, "MOST_BYTES", 4_000)
    other = small.replace("small", "other")
    write_deltalake(other, pa.table({"id": [1]}))

    assert settings(merged(other, TableSource(small, version=0))) != {}
    assert settings(merged(other, TableSource(small))) == {}


def test_rows_of_unknown_number_are_not_taken_for_few(tables):
    small = tables["small"]

    assert settings(merged(small, SqlSource("SELECT 1 AS id"))) == {}
    assert settings(WriteStatement(table=small, source=TableSource(small))) == {}


def test_a_classic_session_is_left_alone(tables):
    class Classic(Session):
        __module__ = "pyspark.sql.session"

    assert settings(DeleteStatement(table=tables["small"], where="id = 1"), Classic()) == {}


def test_the_next_statement_of_the_session_is_compiled_when_it_is_not_small(tables, monkeypatch):
    monkeypatch.setattr(small_statement, "MOST_BYTES", 4_000)
    session = Session()
    settings(DeleteStatement(table=tables["small"], where="id = 1"), session)

    assert settings(DeleteStatement(table=tables["large"], where="id = 1"), session) == {}


def test_a_setting_of_the_user_stays_for_statements_that_are_not_small(tables, monkeypatch):
    monkeypatch.setattr(small_statement, "MOST_BYTES", 4_000)
    session = Session()
    session.settings["spark.sql.codegen.wholeStage"] = "false"

    found = settings(DeleteStatement(table=tables["large"], where="id = 1"), session)
    assert found == {"spark.sql.codegen.wholeStage": "false"}
