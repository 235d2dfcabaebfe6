"""Runs merges, and checks file statistics."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import MergeStatement, SqlSource
from airflow_delta.spark.dml.merge.merge import merge


@pytest.fixture
def run_merge(spark, table):
    """Merges the rows of a query (or of a source) into the table, by ``id`` by default."""

    def run(source, *, on="target.id = source.id", origin=None, start_version=None, log=None, session=spark, **statement):
        source = SqlSource(source) if isinstance(source, str) else source
        statement = MergeStatement(table=table, source=source, on=on, **statement)
        return merge(session, log or DeltaLog.for_table(table), statement, origin=origin, start_version=start_version)

    return run


@pytest.fixture
def check_statistics(table):
    """Compares the statistics of every live file with its content as pyarrow reads it."""

    def check():
        files = DeltaLog.for_table(table).snapshot().files().to_pylist()
        assert len(files) == len({file["path"] for file in files})
        for file in files:
            rows = pq.read_table(Path(table) / unquote(file["path"]), partitioning=None)
            stats = json.loads(file["stats"])
            assert stats["numRecords"] == len(rows) > 0
            assert file["size"] == (Path(table) / unquote(file["path"])).stat().st_size
            for name, nulls in stats["nullCount"].items():
                if not isinstance(nulls, dict):
                    assert nulls == rows[name].null_count, name
            for name in stats["minValues"]:
                values = [value for value in rows[name].to_pylist() if value is not None]
                if not values or isinstance(values[0], dict):
                    continue
                low, high = (_like(stats[bound][name], values[0]) for bound in ("minValues", "maxValues"))
                assert low <= min(values), name
                assert max(values) <= high, name

    return check


def _like(bound, value):
    """A bound from the log's JSON as a value of the column."""
    match value:
        case dt.datetime():
            return dt.datetime.fromisoformat(bound).replace(tzinfo=value.tzinfo)
        case dt.date():
            return dt.date.fromisoformat(bound)
        case Decimal():
            return Decimal(str(bound))
        case _:
            return type(value)(bound)
