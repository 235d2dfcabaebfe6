"""Checks for any table: the rows that other engines read, and correct statistics, changes and row ids."""

import datetime as dt
import json
import math
from collections import Counter
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from hypothesis import event

from airflow_delta.core.schema import MappingMode, physical_name
from tests.spark.properties.generated import SCHEMA
from tests.spark.properties.model import counted


def read_by_others(table, connection, snapshot, converted=frozenset()):
    """The rows as duckdb and deltalake read them, if they can; ``converted`` files have INT96 timestamps."""
    found = {}
    if snapshot.partition_columns and snapshot.column_mapping is not MappingMode.NONE:
        event("duckdb is not compared: it finds no partition values by physical names, also in Spark's own tables")
    else:
        found["duckdb"] = counted(connection.sql(f"SELECT * FROM delta_scan('{table}')").to_arrow_table())
    if converted.intersection(snapshot.files()["path"].to_pylist()):
        event("deltalake is not compared: it reads INT96 as nanoseconds, in which years before 1677 overflow")
    else:
        query = QueryBuilder().register("compared", DeltaTable(table))
        found["deltalake"] = counted(pa.table(query.execute("SELECT * FROM compared").read_all()))
    return found


def check_statistics(table, snapshot, foreign=frozenset()):
    """Compare the statistics of every live file with its values; ``foreign`` files were written by other engines."""
    names = {physical_name(field): field.name for field in snapshot.schema.fields}
    files = snapshot.files().to_pylist()
    assert len(files) == len({file["path"] for file in files})
    for file in files:
        if file["path"] in foreign:
            continue
        place = Path(table) / unquote(file["path"])
        rows = pq.read_table(place, partitioning=None, coerce_int96_timestamp_unit="us")
        stats = json.loads(file["stats"])
        assert file["size"] == place.stat().st_size
        assert stats["numRecords"] == len(rows) > 0
        is_masked = file["deletion_vector"] is not None
        assert not (is_masked and stats.get("tightBounds", True)), "a deletion vector loosens bounds"
        assert set(stats["minValues"]) | set(stats["maxValues"]) <= set(names)
        for physical, name in names.items():
            if physical not in rows.column_names:
                continue
            column = rows[physical]
            given = [stats[kind].get(physical) for kind in ("nullCount", "minValues", "maxValues")]
            _check_column(name, column, *given)
            if name in ("id", "d", "k") and column.null_count < len(column):  # footers have none for INT96
                assert None not in given, (name, stats)


def _check_column(name, column, nulls, low, high):
    """Check the statistics of a column, or of all leaves of a struct; lists and maps have only a NULL count."""
    if pa.types.is_struct(column.type):
        for member in column.type:
            given = [None if known is None else known.get(member.name) for known in (nulls, low, high)]
            _check_column(f"{name}.{member.name}", pc.struct_field(column, member.name), *given)
        return
    assert nulls is None or nulls == column.null_count, name
    if pa.types.is_nested(column.type):
        assert low is high is None, name
        return
    _check_bounds(name, [value for value in column.to_pylist() if value is not None], low, high)


def _check_bounds(name, values, low, high):
    has_nan = any(isinstance(value, float) and math.isnan(value) for value in values)
    assert not (has_nan and high is not None), f"{name}: NaN is greater than {high}"
    values = [_comparable(value) for value in values if not (isinstance(value, float) and math.isnan(value))]
    if values and low is not None:
        assert _bound(low, values[0]) <= min(values), name
    if values and high is not None:
        # Timestamps have milliseconds in statistics; readers add one to an upper bound, or it is rounded up.
        slack = dt.timedelta(milliseconds=1) if isinstance(values[0], dt.datetime) else None
        bound = _bound(high, values[0])
        assert max(values) <= (bound if slack is None else bound + slack), name


def _comparable(value):
    return value.encode() if isinstance(value, str) else value


def _bound(bound, value):
    match value:
        case dt.datetime():
            return dt.datetime.fromisoformat(bound).astimezone(dt.UTC)
        case dt.date():
            return dt.date.fromisoformat(bound)
        case Decimal():
            return Decimal(str(bound))
        case bytes():
            return bound.encode()
        case _:
            return type(value)(bound)


def check_changes(log, before, after, first):
    """Check that the change feed from version ``first`` on turns the rows before it into the current ones."""
    latest = log.refresh().version
    if latest < first:
        assert before == after
        return
    feed = log.changes(first).read_all()
    kinds = feed["_change_type"].to_pylist()
    rows = [tuple(map(repr, row.values())) for row in feed.select(SCHEMA.names).cast(SCHEMA).to_pylist()]
    changed = Counter(before)
    for kind, row in zip(kinds, rows, strict=True):
        changed[row] += {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}[kind]
    assert {row: count for row, count in changed.items() if count} == dict(after)


def row_ids(snapshot):
    """The row id by ``k``; fails if an id is missing or occurs twice."""
    rows = snapshot.to_arrow(with_row_ids=True).read_all()
    ids = rows["__row_id"].to_pylist()
    assert None not in ids
    assert len(set(ids)) == len(ids)
    keys = rows["k"].to_pylist()
    counts = Counter(keys)
    return {key: number for key, number in zip(keys, ids, strict=True) if counts[key] == 1}
