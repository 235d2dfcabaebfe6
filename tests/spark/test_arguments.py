"""Arguments of scripts that are of another type are refused before anything is done, by name."""

import datetime as dt
import pickle

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.spark import DeltaTable, IdentityGenerator, delta_reader, delta_writer, sql
from airflow_delta.spark.arguments import takes_only
from airflow_delta.spark.errors import ArgumentError
from airflow_delta.spark.streaming.read_stream import read_stream

CALLS = {
    "expected path to be a text, found None": lambda spark, table: DeltaTable.forPath(spark, None),
    "expected sparkSession to be a SparkSession, found None": lambda spark, table: DeltaTable.forPath(None, "/t"),
    "expected version to be a whole number or None, found '0'": lambda spark, table: DeltaTable.forPath(
        spark, "/t", version="0"
    ),
    "found 'file:///x'": lambda spark, table: DeltaTable.forPath(spark, "/t", allowed_prefixes="file:///x"),
    "expected identifier": lambda spark, table: DeltaTable.isDeltaTable(spark, 5),
    "expected columns to be a list, each of which is a text or None, found 'n'": lambda spark, table: table.toDF("n"),
    "expected aliasName": lambda spark, table: table.alias(None),
    "expected condition to be a text or a Column or None, found 1": lambda spark, table: table.delete(1),
    "found 'n': an int": lambda spark, table: table.update(set={"n": 1}),
    "expected limit to be a whole number or None, found '1'": lambda spark, table: table.history("1"),
    "expected version to be a whole number, found True": lambda spark, table: table.restoreToVersion(True),
    "expected timestamp to be a text, found a datetime": lambda spark, table: table.restoreToTimestamp(
        dt.datetime(2021, 1, 1, tzinfo=dt.UTC)
    ),
    "expected timestamp to be a text, found None": lambda spark, table: table.cloneAtTimestamp(None, "/t"),
    "expected isShallow to be True or False, found 'false'": lambda spark, table: table.clone("/t", "false"),
    "expected replace to be True or False, found 'false'": lambda spark, table: table.clone("/t", True, "false"),
    "expected retentionHours to be a number or None, found '7'": lambda spark, table: table.vacuum("7"),
    "the call of where is not valid: expected partitionFilter": lambda spark, table: table.optimize().where(5),
    "expected mode": lambda spark, table: table.generate(None),
    "expected source to be a DataFrame, found 'rows'": lambda spark, table: table.merge("rows", "TRUE"),
    "expected values to map columns": lambda spark, table: table.merge(spark.range(1), "n = id").whenNotMatchedInsert(),
    "expected frame to be a DataFrame": lambda spark, table: delta_writer(None),
    "the call of save": lambda spark, table: delta_writer(spark.range(1)).save(None),
    "expected replaceWhere to be a text or True or False or a number, found None": lambda spark, table: delta_writer(
        spark.range(1)
    ).options(replaceWhere=None),
    "expected names to be a text, found": lambda spark, table: delta_reader(spark).columns(["n"]),
    "expected storage_options to be a mapping": lambda spark, table: delta_reader(spark, storage_options=["secret"]),
    "expected dataType": lambda spark, table: DeltaTable.create(spark).addColumn("n", None),
    "expected start to be a whole number, found '1'": lambda spark, table: IdentityGenerator("1"),
    "expected query": lambda spark, table: sql(spark, None),
    "the call of read_stream": lambda spark, table: read_stream(spark, None),
}


@pytest.mark.parametrize(("text", "call"), CALLS.items(), ids=CALLS)
def test_an_argument_of_another_type_is_refused_and_nothing_is_done(spark, table, write_rows, text, call):
    write_rows("SELECT 1 AS n")
    with pytest.raises(ArgumentError) as caught:
        call(spark, DeltaTable.forPath(spark, table))
    assert text in str(caught.value)
    assert "secret" not in str(caught.value)
    assert DeltaLog.for_table(table).snapshot().version == 0


def test_it_is_a_type_error_and_a_value_error_as_in_delta_spark_and_travels():
    error = ArgumentError(statement="f", detail="d")
    assert all(isinstance(error, kind) for kind in (TypeError, ValueError, InvalidStatementError))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_missing_argument_is_pythons_own_error_of_the_function():
    @takes_only
    def read(path: str) -> None: ...

    with pytest.raises(TypeError, match=r"read\(\) missing 1 required positional argument: 'path'"):
        read()


def test_a_history_of_fewer_than_no_commits_is_refused(spark, table, write_rows):
    write_rows("SELECT 1 AS n")
    with pytest.raises(InvalidStatementError, match="expected a limit of 0 or more, found -1"):
        DeltaTable.forPath(spark, table).history(-1)
