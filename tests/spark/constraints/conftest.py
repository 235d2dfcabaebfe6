"""Tables with constraints on their rows, made by our core or by Delta-Spark."""

import shutil

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import MergeStatement, SqlSource, UpdateStatement
from airflow_delta.core.table_changes.create import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from tests.golden_tables import TABLES


@pytest.fixture
def by_delta_spark(table):
    """Copies the table of this name that Delta-Spark wrote."""

    def copy(name):
        shutil.copytree(TABLES / name / "table", table, copy_function=shutil.copyfile)

    return copy


@pytest.fixture
def create(table):
    """Makes the table from its columns in DDL."""

    def make(columns, *, partition_by=(), constraints=None, properties=None):
        new = NewTable(
            schema=parse_struct(columns),
            partition_columns=partition_by,
            constraints=constraints or {},
            properties=properties or {},
        )
        DeltaLog.for_table(table).create(new)
        return table

    return make


@pytest.fixture
def change(spark, table):
    """Runs an UPDATE of the table."""

    def run(where=None, **statement):
        return update(spark, DeltaLog.for_table(table), UpdateStatement(table=table, where=where, **statement))

    return run


@pytest.fixture
def put_together(spark, table):
    """Merges the rows of a query into the table, by ``id`` by default."""

    def run(source, *, on="target.id = source.id", **statement):
        statement = MergeStatement(table=table, source=SqlSource(source), on=on, **statement)
        return merge(spark, DeltaLog.for_table(table), statement)

    return run


@pytest.fixture
def column(table):
    """Current metadata of a column in the log."""

    def read(name):
        return dict(DeltaLog.for_table(table).snapshot().schema.find(name).metadata)

    return read


@pytest.fixture
def seen(duckdb_connection, table):
    """The rows of the table as duckdb reads them, also through deletion vectors."""

    def read(columns="*", order="id"):
        query = f"SELECT {columns} FROM delta_scan('{table}') ORDER BY {order} NULLS FIRST"
        return duckdb_connection.sql(query).fetchall()

    return read
