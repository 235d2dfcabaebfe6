"""Every statement on every kind of table gives the rows that duckdb computes, with every reader and with true statistics."""

import itertools
import shutil

import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import (
    DeleteStatement,
    FileSource,
    MergeStatement,
    OptimizeStatement,
    SqlSource,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.write.write import write
from tests.spark.properties.generated import Step, changes, kinds, merges, rearrangements, rows, writes
from tests.spark.properties.model import Model, as_arrow, counted
from tests.spark.properties.reference_readers import check_changes, check_statistics, read_by_others, row_ids

_LEGACY = {
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}


class World:
    """One table, its model beside it, and the statements that both run."""

    def __init__(self, spark, table, tmp_path, connection, kind):
        self.spark, self.table, self.kind = spark, table, kind
        self.given = str(tmp_path / "given.parquet")
        self.keys = itertools.count(1) if kind.tracking else itertools.repeat(0)
        self.connection = connection
        self.foreign = self.converted = frozenset()
        self.model = Model(connection, partitioned=kind.partitioned)
        shutil.rmtree(table, ignore_errors=True)

    @property
    def log(self):
        return DeltaLog.for_table(self.table)

    def files(self):
        return frozenset(self.log.snapshot().files()["path"].to_pylist())

    def make(self, rows):
        """Version 0 and the table's properties."""
        first = as_arrow(rows, self.keys)
        self.model.run(Step(name="append"), first)
        by = ["p"] if self.kind.partitioned else []
        match self.kind.maker:
            case "spark":
                self._write_rows(first, partition_by=tuple(by), properties=self.kind.properties)
                return
            case "deltalake":
                write_deltalake(self.table, first, partition_by=by or None)
                self.foreign = self.files()
            case "int96":
                frame = self.spark.createDataFrame(first)
                frame.write.options(**_LEGACY).partitionBy(*by).parquet(self.table)
                DeltaLog.convert(self.table, partition_schema=dict.fromkeys(by, "string"))
                self.converted = self.files()
        if self.kind.properties:
            self.log.alter().set_properties(self.kind.properties)

    def _write_rows(self, given, *, where=None, **statement):
        pq.write_table(given, self.given)
        source = FileSource(self.given, format="parquet")
        if where is not None:
            # Not as a bare condition: of a Parquet file Spark would evaluate `x = NaN` on its statistics, and lose the rows.
            source = SqlSource(f"SELECT * FROM given WHERE coalesce(({where}), FALSE)", views={"given": source})
            statement["replace_where"] = where
        write(self.spark, self.log, WriteStatement(table=self.table, source=source, **statement))

    def run(self, step):
        given = as_arrow(step.rows, self.keys)
        self.model.run(step, given)
        match step.name:
            case "append" | "overwrite" | "dynamic_overwrite" | "replace_where":
                self._write_rows(given, where=step.where, mode=step.name)
            case "delete":
                delete(self.spark, self.log, DeleteStatement(table=self.table, where=step.where))
            case "update":
                statement = UpdateStatement(table=self.table, assignments=step.assignments, where=step.where)
                update(self.spark, self.log, statement)
            case "merge":
                pq.write_table(given, self.given)
                source = FileSource(self.given, format="parquet")
                statement = MergeStatement(table=self.table, source=source, on=step.on, clauses=step.clauses)
                merge(self.spark, self.log, statement)
            case "optimize":
                z_order_by = ("id", "d") if step.z_order else ()
                optimize(self.spark, self.log, OptimizeStatement(table=self.table, z_order_by=z_order_by))

    def check(self):
        """Check that all readers return the model's rows, and that the statistics are correct."""
        expected, snapshot = self.model.rows(), self.log.snapshot()
        assert counted(snapshot.to_arrow().read_all()) == expected
        assert counted(read_table(self.spark, snapshot).toArrow()) == expected
        for reference, found in read_by_others(self.table, self.connection, snapshot, self.converted).items():
            assert found == expected, reference
        check_statistics(self.table, snapshot, self.foreign)
        return expected


def check(spark, table, tmp_path, connection, *, kind, first, statements):
    world = World(spark, table, tmp_path, connection, kind)
    world.make(first)
    before = world.check()
    ids = row_ids(world.log.snapshot()) if kind.tracking else {}
    for step in statements:
        note(step)
        version = world.log.snapshot().version
        world.run(step)
        after = world.check()
        if kind.feed:
            check_changes(world.log, before, after, version + 1)
        if kind.tracking:
            now = row_ids(world.log.snapshot())
            assert {key: ids[key] for key in ids.keys() & now.keys()} == {key: now[key] for key in ids.keys() & now.keys()}
            ids = now
        before = after


RUN = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)


@given(kind=kinds, first=rows(min_size=1), statements=st.tuples(changes, merges))
@settings(RUN, max_examples=4, phases=[Phase.generate])
def test_statements_give_what_duckdb_computes(spark, table, tmp_path, duckdb_connection, **case):
    check(spark, table, tmp_path, duckdb_connection, **case)


@pytest.mark.slow
@given(
    kind=kinds, first=rows(min_size=1), statements=st.tuples(writes, changes, merges, rearrangements).flatmap(st.permutations)
)
@settings(RUN, max_examples=60, phases=[Phase.generate])
def test_many_statements_give_what_duckdb_computes(spark, table, tmp_path, duckdb_connection, **case):
    check(spark, table, tmp_path, duckdb_connection, **case)
