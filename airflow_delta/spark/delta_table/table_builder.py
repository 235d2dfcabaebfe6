"""CREATE and REPLACE TABLE, built up column by column as delta-spark's Python class does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import StructField as SparkField
from pyspark.sql.types import StructType as SparkStruct

from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, TableNotFoundError
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.statements import CreateMode
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.table_changes.columns import COMMENT, generated, identity
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.spark.arguments import check_argument, checks_arguments
from airflow_delta.spark.delta_table.identifiers import path_in, path_or_identifier
from airflow_delta.spark.delta_table.named_tables import NamedTables, name_parts
from airflow_delta.spark.delta_table.optimize_builder import names_in
from airflow_delta.spark.errors import TableNameUnsupportedError
from airflow_delta.spark.hadoop.table_log import table_log
from airflow_delta.spark.schema_conversion import from_spark, quoted

if TYPE_CHECKING:
    from airflow_delta.spark.delta_table.delta_table import DeltaTable

# ruff: noqa: N802, N803 - the names of methods and arguments are delta-spark's


@dataclass(frozen=True)
class IdentityGenerator:
    """Numbers that writers give to rows: the first one, and the distance from one to the next."""

    start: int = 1
    step: int = 1

    def __post_init__(self) -> None:
        for name in ("start", "step"):
            check_argument("IdentityGenerator", name, getattr(self, name), int)


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeltaTableBuilder:
    """Made by ``DeltaTable.create`` and its like; each method gives a builder that knows one thing more.

    Attributes:
        spark: The session.
        opened: Makes the ``DeltaTable`` of a log.
        mode: What happens where there is a table.
        must_exist: Whether there has to be one.
        new: The table so far.
        path: Where it lies; None for where the catalog says.
        name: Its name in the catalog that the environment names.
    """

    spark: SparkSession
    opened: Callable[[SparkSession, DeltaLog], DeltaTable]
    mode: CreateMode
    must_exist: bool = False
    new: NewTable = field(default_factory=lambda: NewTable(schema=StructType(())))
    path: str | None = None
    name: TableName | None = None

    def tableName(self, identifier: str) -> DeltaTableBuilder:
        """The table's path, as ``delta.`path` ``, or its name in the catalog that ``AIRFLOW_DELTA_CATALOG`` names.

        Beside a name, ``location`` says where a new table lies. Default: below the location of its schema.

        Raises:
            TableNameUnsupportedError: It is a name, and the environment names no catalog.
        """
        if path_or_identifier(identifier) != identifier:
            return replace(self, path=path_in(identifier))
        if NamedTables.of_environment(self.spark) is None:
            raise TableNameUnsupportedError(name=identifier)
        return replace(self, name=TableName.parse(identifier))

    def location(self, location: str) -> DeltaTableBuilder:
        """Where the table lies: a path or URI."""
        return replace(self, path=path_or_identifier(location))

    def comment(self, comment: str) -> DeltaTableBuilder:
        """What people say of the table."""
        return self._with(description=comment)

    def addColumn(  # noqa: PLR0917 - as in delta-spark
        self,
        colName: str,
        dataType: str | SparkType,
        nullable: bool = True,  # noqa: FBT001, FBT002 - as in delta-spark
        generatedAlwaysAs: str | IdentityGenerator | None = None,
        generatedByDefaultAs: IdentityGenerator | None = None,
        comment: str | None = None,
    ) -> DeltaTableBuilder:
        """Add a column.

        Args:
            colName: Its name.
            dataType: Spark's type, or its name in SQL.
            nullable: Whether it may be NULL.
            generatedAlwaysAs: SQL over other columns that always gives its value, or how it is numbered.
            generatedByDefaultAs: How it is numbered in rows that come without a number.
            comment: What people say of it.

        Raises:
            InvalidStatementError: There is no such type, or two ways to make its values.
        """
        if isinstance(dataType, SparkType):
            column = from_spark(SparkStruct([SparkField(colName, dataType)])).fields[0]
        else:
            column = parse_struct(f"{quoted(colName)} {dataType}").fields[0]
        column = replace(column, nullable=nullable and column.nullable)
        if comment is not None:
            column = replace(column, metadata={**column.metadata, COMMENT: comment})
        return self._and(_with_values(column, generatedAlwaysAs, generatedByDefaultAs))

    def addColumns(self, cols: SparkStruct | list[SparkField]) -> DeltaTableBuilder:
        """Add columns as a schema has them."""
        return self._and(*from_spark(SparkStruct(list(cols))).fields)

    def partitionedBy(self, *cols: str | Iterable[str]) -> DeltaTableBuilder:
        """Partition the table by these columns."""
        return self._with(partition_columns=names_in(cols))

    def clusterBy(self, *cols: str | Iterable[str]) -> DeltaTableBuilder:
        """Cluster the table by these columns."""
        return self._with(clustering_columns=names_in(cols))

    def property(self, key: str, value: str) -> DeltaTableBuilder:
        """Set a table property."""
        return self._with(properties={**self.new.properties, key: value})

    def execute(self) -> DeltaTable:
        """Make the table, empty, as one commit; one with a name is published behind it, or there is a ``NotPublishedWarning``.

        Raises:
            TableNameTakenError: The name is that of a table elsewhere, or of another format.
            InvalidStatementError: It has no location, or it has neither columns nor a table to be replaced.
            TableNotFoundError: There is no table to be replaced.
            As ``DeltaLog.create``.
        """
        path, names = self.path, None if self.name is None else NamedTables.of_environment(self.spark)
        if self.name is not None and names is not None:
            path = names.place(name_parts(self.name), path)
        if path is None:
            raise InvalidStatementError(statement="CREATE", detail="it needs location(path)")
        log = table_log(self.spark, path)
        if self.must_exist and not log.exists():
            raise TableNotFoundError(table=log.table_uri)
        log.create(self.new, mode=self.mode)
        if names is not None:
            names.publish(log)
        return self.opened(self.spark, log)

    def _and(self, *columns: StructField) -> DeltaTableBuilder:
        return self._with(schema=StructType((*self.new.schema.fields, *columns)))

    def _with(self, **changes: object) -> DeltaTableBuilder:
        return replace(self, new=replace(self.new, **changes))  # type: ignore[arg-type]


def _with_values(
    column: StructField, always: str | IdentityGenerator | None, by_default: IdentityGenerator | None
) -> StructField:
    if always is not None and by_default is not None:
        detail = f"{column.name} is either generatedAlwaysAs or generatedByDefaultAs"
        raise InvalidStatementError(statement="addColumn", detail=detail)
    if isinstance(always, str):
        return generated(column, always)
    numbers = always or by_default
    if numbers is None:
        return column
    return identity(column, start=numbers.start, step=numbers.step, allow_explicit_insert=by_default is not None)
