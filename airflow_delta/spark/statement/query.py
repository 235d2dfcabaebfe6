"""Queries over tables, each at one version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.log.record_counts import NUM_RECORDS
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.spark import session
from airflow_delta.spark.io.arrow_scan import estimated_size
from airflow_delta.spark.io.pushdown import EVERYTHING, Pushdown
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.io.tasks import file_work
from airflow_delta.spark.jvm import is_connect
from airflow_delta.spark.statement.query_pushdown import push_down
from airflow_delta.spark.statement.target_reads import VIEW_OF_TARGET

_LARGE_BYTES = 32 << 20
"""Bytes whose reading takes longer than letting Spark optimize a query once more: 0.05 to 0.1 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAtVersion:
    """A table that a query reads.

    Attributes:
        snapshot: The version.
        is_newest: As of ``read_table``.
        is_target: Whether it is the target of the statement.
    """

    snapshot: Snapshot
    is_newest: bool
    is_target: bool = False

    @property
    def is_large(self) -> bool:
        """Whether it is worthwhile to determine what a query needs of it."""
        return bool(file_work(self.snapshot.files(columns=("size",))["size"]).sum() > _LARGE_BYTES)

    @property
    def size(self) -> int:
        """Approximate bytes of its rows in memory."""
        return estimated_size(
            self.snapshot.files(columns=("size", NUM_RECORDS.name)), self.snapshot.schema, self.snapshot.schema
        )

    def rows(self, spark: SparkSession, pushdown: Pushdown = EVERYTHING) -> DataFrame:
        """The rows, or only what is needed of them."""
        rows = read_table(spark, self.snapshot, is_newest=self.is_newest, pushdown=pushdown)
        return rows.alias(VIEW_OF_TARGET) if self.is_target else rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryViews(Mapping[str, DataFrame]):
    """The complete views of a query, by name, for further queries over the same versions. A table is opened on first use."""

    spark: SparkSession
    tables: Mapping[str, TableAtVersion]
    others: Mapping[str, DataFrame] = field(default_factory=dict)

    def __getitem__(self, name: str) -> DataFrame:
        return self.others[name] if name in self.others else self.tables[name].rows(self.spark)

    def __iter__(self) -> Iterator[str]:
        return iter({**self.others, **self.tables})

    def __len__(self) -> int:
        return len({**self.others, **self.tables})


def query_rows(query: str, views: QueryViews, args: Mapping[str, Any] | Sequence[Any] | None = None) -> DataFrame:
    """The rows of a query; of large tables only what it needs is read.

    Args:
        query: Spark SQL.
        views: The views that it can use by name, in addition to what the session knows.
        args: Values of its parameters; with parameters, tables are read whole.
    """
    spark = views.spark
    shows_plan = args is None and not is_connect(spark)
    large = {name: table.snapshot for name, table in views.tables.items() if shows_plan and table.is_large}
    needed = push_down(spark, query, large, views.others) if large else {}
    tables = {name: table.rows(spark, needed.get(name, EVERYTHING)) for name, table in views.tables.items()}
    return session.query(spark, query, {**views.others, **tables}, args)
