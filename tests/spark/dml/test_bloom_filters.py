"""Rows of files that Bloom filters rule out are not read: here they are damaged, so that reading them would fail."""

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import (
    UPSERT,
    DeleteStatement,
    MergeStatement,
    NotMatchedBySourceDelete,
    SqlSource,
    UpdateStatement,
)
from airflow_delta.spark.delta_table.delta_table import DeltaTable
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update

KEY = "substr(sha2(cast(id AS string), 256), 1, 36)"
PROPERTIES = {"airflow_delta.bloomFilter.columns": "key"}
FILES, ROWS = 6, 300
sees_filters = pytest.mark.skipif(not hasattr(pq.ColumnChunkMetaData, "bloom_filter_offset"), reason="needs pyarrow 24")


def snapshot(table):
    return DeltaLog.for_table(table).snapshot()


def key_of(spark, number):
    return spark.sql(f"SELECT {KEY} AS key FROM (SELECT {number}L AS id)").first().key


def fill(write_rows, **properties):
    for number in range(FILES):
        rows = f"SELECT {KEY} AS key, id AS n FROM range({number * ROWS}, {(number + 1) * ROWS}, 1, 1)"
        write_rows(rows, mode="append", properties={**PROPERTIES, **properties} if not number else {})


def filtered_columns(path):
    footer = pq.read_metadata(path)
    chunks = (footer.row_group(0).column(number) for number in range(footer.num_columns))
    return {chunk.path_in_schema for chunk in chunks if chunk.bloom_filter_offset is not None}


def damage_others(table, *wanted):
    """Overwrite the rows of all data files but those with these rows; how many are left."""
    left = 0
    for path in snapshot(table).files()["path"].to_pylist():
        file = Path(table) / path
        if set(wanted).isdisjoint(pq.read_table(file, partitioning=None)["n"].to_pylist()):
            content, footer = bytearray(file.read_bytes()), pq.read_metadata(file)
            for number in range(footer.num_columns):
                chunk = footer.row_group(0).column(number)
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
            file.write_bytes(content)
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        else:
            left += 1
    return left


@pytest.fixture
def filled(write_rows, table):
    """Six files of 300 hashed keys each: the ranges of all overlap."""
    fill(write_rows)
    return table


def test_only_the_files_of_the_keys_are_read_by_a_query(spark, filled):
    key = key_of(spark, 700)
    assert len(snapshot(filled).files()) == FILES
    assert damage_others(filled, 700) == 1
    rows = DeltaTable.forPath(spark, filled).toDF(where=f"key = '{key}'")
    assert [row.n for row in rows.collect()] == [700]
    assert DeltaTable.forPath(spark, filled).toDF(where=f"key IN ('{uuid.uuid4()}')").count() == 0


def test_a_merge_opens_only_the_files_of_its_keys(spark, filled):
    assert damage_others(filled, 10, 1_000) == 2
    source = SqlSource(f"SELECT {KEY} AS key, -id AS n FROM (SELECT explode(array(10L, 1000L, 999999L)) AS id)")
    statement = MergeStatement(table=filled, source=source, on="target.key = source.key", clauses=UPSERT)
    result = merge(spark, DeltaLog.for_table(filled), statement)
    assert (result.metrics["numTargetRowsUpdated"], result.metrics["numTargetRowsInserted"]) == (2, 1)


def test_a_merge_of_more_keys_than_it_lists_opens_only_their_files(spark, filled):
    assert damage_others(filled, 10) == 1
    source = SqlSource(f"SELECT {KEY} AS key, -id AS n FROM range(0, 200)")
    statement = MergeStatement(table=filled, source=source, on="target.key = source.key", clauses=UPSERT)
    result = merge(spark, DeltaLog.for_table(filled), statement)
    assert (result.metrics["numTargetRowsUpdated"], result.metrics["numTargetRowsInserted"]) == (200, 0)


def test_delete_and_update_open_only_the_files_of_the_keys(spark, filled):
    assert damage_others(filled, 10, 400) == 2
    log = DeltaLog.for_table(filled)
    changed = update(spark, log, UpdateStatement(table=filled, where=f"key = '{key_of(spark, 10)}'", assignments={"n": "-1"}))
    deleted = delete(spark, log, DeleteStatement(table=filled, where=f"key IN ('{key_of(spark, 400)}', 'x')"))
    assert (changed.metrics["numUpdatedRows"], deleted.metrics["numDeletedRows"]) == (1, 1)


@sees_filters
def test_what_a_statement_writes_has_filters_again(spark, filled):
    log = DeltaLog.for_table(filled)
    update(spark, log, UpdateStatement(table=filled, where=f"key = '{key_of(spark, 10)}'", assignments={"n": "-1"}))
    delete(spark, log, DeleteStatement(table=filled, where=f"key = '{key_of(spark, 400)}'"))
    for path in snapshot(filled).files()["path"].to_pylist():
        assert filtered_columns(Path(filled) / path) == {"key"}
    keys = [key_of(spark, 10), key_of(spark, 11), key_of(spark, 1_799)]
    assert all(len(snapshot(filled).files(f"key = '{key}'")) >= 1 for key in keys)


def test_rows_that_match_nothing_of_the_source_are_found_in_every_file(spark, filled):
    source = SqlSource(f"SELECT {KEY} AS key, id AS n FROM range(0, 5)")
    clauses = (NotMatchedBySourceDelete(),)
    statement = MergeStatement(table=filled, source=source, on="target.key = source.key", clauses=clauses)
    assert merge(spark, DeltaLog.for_table(filled), statement).metrics["numTargetRowsDeleted"] == FILES * ROWS - 5


@pytest.mark.slow
@sees_filters
@pytest.mark.parametrize("properties", [{}, {"airflow_delta.bloomFilter.numItems": "1000"}], ids=["counted", "given"])
def test_our_reader_and_duckdb_find_every_value_of_every_type_that_sparks_writer_put_in(write_rows, table, properties):
    columns = {
        "key": KEY,
        "Upper": "concat('x', id)",
        "i": "cast(id * 3 AS int)",
        "b": "cast(pmod(id, 100) AS tinyint)",
        "l": "id * 10000000000",
        "d": "date_add(DATE'2000-01-01', cast(id AS int))",
        "at": "timestamp_micros(1357000000000000 + id * 1000001)",
        "ntz": "cast(date_add(DATE'2000-01-01', cast(id AS int)) AS timestamp_ntz)",
        "m": "cast(id / 4 AS decimal(9, 2))",
        "w": "cast(-id / 4 AS decimal(30, 2))",
        "bin": "cast(concat('b', id) AS binary)",
    }
    named = {"airflow_delta.bloomFilter.columns": ",".join(columns), "delta.columnMapping.mode": "name", **properties}
    rows = ", ".join(f"{value} AS {name}" for name, value in columns.items())
    write_rows(f"SELECT {rows}, id AS n FROM range(0, 1000, 1, 1)", mode="append", properties=named)
    files = snapshot(table).files()["path"].to_pylist()
    (path,) = files
    footer = pq.read_metadata(Path(table) / path)
    assert len(filtered_columns(Path(table) / path)) >= len(columns) - 1  # those of few values may lie in a dictionary
    wanted = {
        "key": "'{}'", "Upper": "'{}'", "i": "{}", "b": "{}", "l": "{}", "d": "DATE'{}'",
        "at": "TIMESTAMP'{:%Y-%m-%d %H:%M:%S.%f}'", "ntz": "TIMESTAMP_NTZ'{:%Y-%m-%d %H:%M:%S}'", "m": "{}", "w": "{}",
    }  # fmt: skip
    read = snapshot(table).to_arrow().read_all().to_pylist()
    for row in read[::97]:
        for name, literal in wanted.items():
            where = f"{name} = {literal.format(row[name])}"
            assert len(snapshot(table).files(where)) == 1, where
    absent = {
        "key": "a" * 36,
        "Upper": "x500.5",
        "i": 1,
        "l": 5,
        "d": dt.date(2001, 1, 1) + dt.timedelta(100_000),
        "at": dt.datetime(2012, 1, 1, tzinfo=dt.UTC),
        "m": Decimal("1.13"),
        "w": Decimal("-1.13"),
    }
    assert all(not len(snapshot(table).files(f"{name} = {wanted[name].format(value)}")) for name, value in absent.items())
    stored = footer.schema.names[list(snapshot(table).schema.names).index("key")]
    for row in read[::97]:
        probe = duckdb.execute(f"FROM parquet_bloom_probe('{table}/{path}', '{stored}', ?)", [row["key"]]).fetchall()
        assert not any(found[-1] for found in probe)
        selected = duckdb.execute(f"SELECT count(*) FROM '{table}/{path}' WHERE \"{stored}\" = ?", [row["key"]])
        assert selected.fetchone() == (1,)
