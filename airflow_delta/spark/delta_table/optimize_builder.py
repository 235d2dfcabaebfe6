"""A builder for OPTIMIZE, like that of delta-spark's Python class."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import OptimizeStatement
from airflow_delta.spark.arguments import checks_arguments
from airflow_delta.spark.delta_table.answers import optimize_row
from airflow_delta.spark.optimize.optimize import optimize

# ruff: noqa: N802 - the method names are delta-spark's


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeltaOptimizeBuilder:
    """Made by ``DeltaTable.optimize``.

    Attributes:
        spark: The session.
        log: The table's log.
        partition_filter: Spark SQL over partition columns; None is the whole table.
    """

    spark: SparkSession
    log: DeltaLog
    partition_filter: str | None = None

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:  # noqa: N803
        """Restrict to these partitions; several filters are combined with AND."""
        both = partitionFilter if self.partition_filter is None else f"({self.partition_filter}\n) AND ({partitionFilter}\n)"
        return replace(self, partition_filter=both)

    def executeCompaction(self) -> DataFrame:
        """Compact small files. Raises as ``optimize``."""
        return self._run(())

    def executeZOrderBy(self, *cols: str | Iterable[str]) -> DataFrame:
        """Z-order by these columns. Raises as ``optimize``."""
        return self._run(names_in(cols))

    def _run(self, z_order_by: tuple[str, ...]) -> DataFrame:
        statement = OptimizeStatement(table=self.log.table_uri, where=self.partition_filter, z_order_by=z_order_by)
        return optimize_row(self.spark, optimize(self.spark, self.log, statement))


def names_in(columns: Iterable[str | Iterable[str]]) -> tuple[str, ...]:
    """Names given one by one or as lists."""
    return tuple(name for column in columns for name in ([column] if isinstance(column, str) else column))
