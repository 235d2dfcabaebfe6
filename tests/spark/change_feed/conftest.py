"""Tables with a change data feed, statements on them, and the feed according to a model and three readers."""

from collections import Counter

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import LONG, STRING
from airflow_delta.core.statements import (
    DeleteStatement,
    MergeStatement,
    SqlSource,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.core.table_changes import NewTable
from airflow_delta.spark.change_feed.read import read_changes
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.write.write import write

SCHEMA = StructType((StructField("id", LONG), StructField("p", STRING), StructField("v", LONG)))
FEED = ("id", "p", "v", "_change_type")


class RecordedTable:
    """A table of rows with a unique ``id``, whose changes are checked after every statement."""

    def __init__(self, spark, uri, *, properties=None, partitioned=False):
        self.spark, self.uri, self.log = spark, uri, DeltaLog.for_table(uri)
        properties = {"delta.enableChangeDataFeed": "true", **(properties or {})}
        self.log.create(NewTable(schema=SCHEMA, partition_columns=["p"] if partitioned else [], properties=properties))

    def insert(self, query):
        return write(self.spark, self.log, WriteStatement(table=self.uri, source=SqlSource(query)))

    def delete(self, where=None):
        return delete(self.spark, self.log, DeleteStatement(table=self.uri, where=where))

    def update(self, where, **assignments):
        return update(self.spark, self.log, UpdateStatement(table=self.uri, where=where, assignments=assignments))

    def merge(self, source, clauses, on="target.id = source.id"):
        return merge(self.spark, self.log, MergeStatement(table=self.uri, source=SqlSource(source), on=on, clauses=clauses))

    def rows(self, version=None):
        snapshot = self.log.refresh() if version is None else self.log.snapshot(version)
        return {row["id"]: (row["id"], row["p"], row["v"]) for row in snapshot.to_arrow().read_all().to_pylist()}

    def change_files(self, version=None):
        """Partition values of the change data files of a commit."""
        version = self.log.refresh().version if version is None else version
        lines = (self.log.store.read(f"_delta_log/{version:020}.json")).decode().splitlines()
        return [line for line in lines if line.startswith('{"cdc"')]

    def modelled(self, version):
        """The changes, from a comparison of the rows before and after."""
        before, after = self.rows(version - 1), self.rows(version)
        changes = Counter()
        for key in before.keys() | after.keys():
            match before.get(key), after.get(key):
                case old, None:
                    changes[*old, "delete"] += 1
                case None, new:
                    changes[*new, "insert"] += 1
                case old, new if old != new:
                    changes[*old, "update_preimage"] += 1
                    changes[*new, "update_postimage"] += 1
        return changes

    def by_core(self, version):
        return _counted(self.log.changes(version, version).read_all().select(FEED).to_pylist())

    def by_spark(self, version):
        return Counter(map(tuple, read_changes(self.spark, self.log, version, version).select(*FEED).collect()))

    def by_deltalake(self, version):
        feed = DeltaTable(self.uri).load_cdf(starting_version=version, ending_version=version).read_all()
        return _counted(pa.table(feed).select(FEED).to_pylist())

    def check(self, *readers):
        """The changes of the last commit; fails unless all readers agree."""
        version = self.log.refresh().version
        expected = self.modelled(version)
        for reader in (self.by_core, *readers):
            assert reader(version) == expected
        return expected


def _counted(rows):
    return Counter(tuple(row.values()) for row in rows)


@pytest.fixture
def recorded(spark, table):
    """Makes a table: ``recorded(properties, partitioned=...)``."""

    def make(properties=None, *, partitioned=False, uri=table):
        return RecordedTable(spark, uri, properties=properties, partitioned=partitioned)

    return make
