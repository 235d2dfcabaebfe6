"""A builder for CREATE and REPLACE TABLE, like that of delta-spark's Python class."""

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
    """An identity column's first value, and the step between values."""

    start: int = 1
    step: int = 1

    def __post_init__(self) -> None:
        for name in ("start", "step"):
            check_argument("IdentityGenerator", name, getattr(self, name), int)


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeltaTableBuilder:
    """Made by ``DeltaTable.create`` and the like; each method except ``execute`` returns a new builder with one more setting.

    Attributes:
        spark: The session.
        opened: Makes the ``DeltaTable`` of a log.
        mode: What to do if the table exists.
        must_exist: Whether the table must exist.
        new: The table's definition so far.
        path: Its path; None for the location that the catalog gives.
        name: Its name in the environment's catalog.
    """

    spark: SparkSession
    opened: Callable[[SparkSession, DeltaLog], DeltaTable]
    mode: CreateMode
    must_exist: bool = False
    new: NewTable = field(default_factory=lambda: NewTable(schema=StructType(())))
    path: str | None = None
    name: TableName | None = None

    def tableName(self, identifier: str) -> DeltaTableBuilder:
        """Set the table's path, as ``delta.`path` ``, or its name in the catalog named by ``AIRFLOW_DELTA_CATALOG``.

        With a name, ``location`` sets where a new table is created; by default below the location of its schema.

        Raises:
            TableNameUnsupportedError: A catalog name is given, but the environment names no catalog.
        """
        if path_or_identifier(identifier) != identifier:
            return replace(self, path=path_in(identifier))
        if NamedTables.of_environment(self.spark) is None:
            raise TableNameUnsupportedError(name=identifier)
        return replace(self, name=TableName.parse(identifier))

    def location(self, location: str) -> DeltaTableBuilder:
        """Set the table's location: a path or URI."""
        return replace(self, path=path_or_identifier(location))

    def comment(self, comment: str) -> DeltaTableBuilder:
        """Set the table's description."""
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
            colName: Name of the column.
            dataType: Spark type, or its name in SQL.
            nullable: Whether the column may be NULL.
            generatedAlwaysAs: SQL over other columns that always gives its value, or an identity generator.
            generatedByDefaultAs: An identity generator for rows without a value.
            comment: Description of the column.

        Raises:
            InvalidStatementError: The type does not exist, or values are to be generated in two ways.
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
        """Add the columns of a schema."""
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
        """Create the table, empty, in one commit; a named table is then published, or a ``NotPublishedWarning`` given.

        Raises:
            TableNameTakenError: The name belongs to a table elsewhere, or of another format.
            InvalidStatementError: The location is unknown, or there are neither columns nor a table to replace.
            TableNotFoundError: The table to be replaced does not exist.
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
