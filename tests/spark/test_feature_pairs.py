"""Every two features that a table can have at once, through every statement, beside a model of rows in plain Python."""

import itertools
import shutil
from collections import Counter

import pyarrow as pa
import pytest
from deltalake import DeltaTable as TheirTable
from deltalake import QueryBuilder

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import AppendOnlyTableError
from airflow_delta.core.schema.data_types import LONG
from airflow_delta.core.statements import (
    UPSERT,
    DeleteStatement,
    MergeStatement,
    NotMatchedInsert,
    OptimizeStatement,
    SqlSource,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.spark import DeltaTable
from airflow_delta.spark.distributed.file_copy import SparkFileCopier
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.write.write import write
from tests.spark.feature_pairs import FEATURES, ROWS_OF_FILE, SHAPES, Case, covering, fit

DELTALAKE_REFUSES = {"v2Checkpoint", "typeWidening", "clustering", "inCommitTimestamp", "vacuumProtocolCheck"}
"""Features of tables that deltalake 1.6 does not open, or does not read the rows of."""


class PairedTable:
    """A table of a case, and its rows as a model has them."""

    def __init__(self, spark, duckdb, root, case):
        self.spark, self.duckdb, self.root, self.case = spark, duckdb, root, case
        self.log = DeltaLog.for_table(root)
        self.log.create(case.definition())
        self.rows = {}

    # -- statements

    def write(self, numbers, v):
        source = SqlSource(self.case.query(numbers, v))
        result = write(self.spark, self.log, WriteStatement(table=self.root, source=source))
        self.rows |= {number: self.case.row(number, v) for number in numbers}
        return result

    def update(self, is_chosen, where, v, p=None):
        assignments = {"v": str(v)} | ({"p": str(p)} if p is not None else {})
        update(self.spark, self.log, UpdateStatement(table=self.root, where=where, assignments=assignments))
        changed = {number: self.case.row(number, v, row["p"] if p is None else p) for number, row in self.chosen(is_chosen)}
        self.rows |= changed

    def delete(self, is_chosen, where):
        delete(self.spark, self.log, DeleteStatement(table=self.root, where=where))
        for number, _ in list(self.chosen(is_chosen)):
            del self.rows[number]

    def merge(self, numbers, v, clauses=UPSERT):
        source = SqlSource(self.case.query(numbers, v))
        statement = MergeStatement(table=self.root, source=source, on="target.id = source.id", clauses=clauses)
        merge(self.spark, self.log, statement)
        taken = [number for number in numbers if clauses is UPSERT or number not in self.rows]
        self.rows |= {number: self.case.row(number, v) for number in taken}

    def optimize(self):
        return optimize(self.spark, self.log, OptimizeStatement(table=self.root))

    def move(self):
        """Go on with a deep clone, without the table itself."""
        source, self.root = self.root, f"{self.root}-clone"
        log = DeltaLog.for_table(self.root)
        self.log.deep_clone(log, copier=SparkFileCopier(self.spark))
        self.log = log
        shutil.rmtree(source)

    def chosen(self, is_chosen):
        return ((number, row) for number, row in self.rows.items() if is_chosen(number))

    # -- reference readers

    def check(self):
        """Check that we and duckdb read the model's rows."""
        self.check_rows("a new log", DeltaLog.for_table(self.root).snapshot().to_arrow().read_all())
        is_mapped = any(name.startswith("mapping") for name in self.case.features)
        if not (self.case.partitioned and is_mapped):  # duckdb finds no partition values by physical names
            self.check_rows("duckdb", self.duckdb.sql(f"FROM delta_scan('{self.root}')").to_arrow_table())

    def check_rows(self, reader, found):
        names = list(self.case.row(0, 0))
        rows = Counter(map(repr, found.select(names).to_pylist()))
        expected = Counter(map(repr, self.rows.values()))
        assert (reader, rows - expected, expected - rows) == (reader, Counter(), Counter())
        if "number" in found.column_names:
            numbers = found["number"].to_pylist()
            assert None not in numbers
            assert len(set(numbers)) == len(numbers), reader

    def check_at_the_end(self):
        """Check that Spark and deltalake read the rows, and that the change feed adds up to them."""
        self.check()
        self.check_rows("spark", DeltaTable.forPath(self.spark, self.root).toDF().toArrow())
        if not DELTALAKE_REFUSES & set(self.case.features):
            query = QueryBuilder().register("t", TheirTable(self.root))
            self.check_rows("deltalake", pa.table(query.execute("SELECT * FROM t").read_all()))
        if "changeDataFeed" in self.case.features:
            feed = self.log.changes(0).read_all()
            names = list(self.case.row(0, 0))
            changed = Counter()
            for kind, row in zip(feed["_change_type"].to_pylist(), feed.select(names).to_pylist(), strict=True):
                changed[repr(row)] += 1 if kind in {"insert", "update_postimage"} else -1
            assert +changed == Counter(map(repr, self.rows.values()))
            assert not -changed
        if "rowTracking" in self.case.features:
            ids = self.log.refresh().to_arrow(columns=["id"], with_row_ids=True).read_all()["__row_id"].to_pylist()
            assert None not in ids
            assert len(set(ids)) == len(ids)


def live(spark, duckdb, root, case, *, moves=False):
    """Run all statements on a table of this case; with ``moves``, continue on a clone of it."""
    table = PairedTable(spark, duckdb, root, case)
    count = ROWS_OF_FILE * case.files
    table.write(range(count), v=10)
    assert len(table.log.refresh().files()) == case.files
    if "typeWidening" in case.features:
        table.log.alter().widen_column("wide", LONG)
    table.write(range(count, count + 2), v=20)
    table.check()
    if case.is_append_only and moves:
        table.move()
    if case.is_append_only:
        for change in (
            lambda: table.update(lambda _: True, "id >= 0", 1),
            lambda: table.delete(lambda _: True, "id >= 0"),
            lambda: table.merge(range(1), 1),
        ):
            with pytest.raises(AppendOnlyTableError):
                change()
        table.merge(range(count, count + 4), v=30, clauses=[NotMatchedInsert()])
        table.optimize()
        table.log.checkpoint()
        table.write(range(count + 4, count + 5), v=40)
        table.check_at_the_end()
        return
    table.update(lambda number: number % 3 == 1, "id % 3 = 1", v=30)
    table.check()
    table.delete(lambda number: number % 5 == 2, "id % 5 = 2")
    table.check()
    if moves:
        table.move()
        table.check()
    table.merge(range(0, count + 8, 4), v=40)
    table.check()
    table.optimize()
    table.check()
    table.log.checkpoint()
    table.update(lambda number: number % 4 == 3, "id % 4 = 3", v=50, p=0)
    table.delete(lambda number: number % 7 == 6, "id % 7 = 6")
    table.check_at_the_end()


CASES = covering()
COMMON = [
    Case(features=("changeDataFeed", "deletionVectors"), partitioned=True, files=30),
    Case(
        features=("changeDataFeed", "checkConstraints", "deletionVectors", "generatedColumns", "mappingByName", "rowTracking"),
        partitioned=True,
        files=2,
    ),
]
"""The features that most often occur together."""


def test_every_two_features_are_together_in_every_shape():
    for (first, second), (partitioned, files) in itertools.product(itertools.combinations(FEATURES, 2), SHAPES):
        together = any(
            {first, second} <= set(case.features) and (case.partitioned, case.files) == (partitioned, files)
            for case in CASES
            if case.is_append_only is ("appendOnly" in (first, second))
        )
        assert together is fit((first, second), partitioned=partitioned)


@pytest.mark.parametrize("case", [pytest.param(COMMON[0], marks=pytest.mark.slow), *COMMON[1:]], ids=str)
def test_common_features_together_live_through_every_statement(spark, duckdb_connection, table, case):
    live(spark, duckdb_connection, table, case)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_two_features_together_live_through_every_statement(spark, duckdb_connection, table, case):
    live(spark, duckdb_connection, table, case)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_deep_clone_of_every_two_features_lives_on_without_its_source(spark, duckdb_connection, table, case):
    live(spark, duckdb_connection, table, case, moves=True)
