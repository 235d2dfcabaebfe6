"""``format("delta")`` through PySpark's Python data source API."""

import datetime as dt
import json
import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as ReferenceTable
from pyarrow.fs import LocalFileSystem
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    CommitStateUnknownError,
    ConstraintViolatedError,
    InvalidStatementError,
    SchemaMismatchError,
    UnsupportedWriterFeatureError,
)
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.char_columns import CHAR_VARCHAR
from airflow_delta.core.schema.data_types import LONG, STRING
from airflow_delta.core.table_changes import NewTable, with_default
from airflow_delta.spark import DeltaTable, delta_writer
from airflow_delta.spark.data_source.write_plan import commit_files, plan_write
from airflow_delta.spark.data_source.writer import DeltaWriter, WrittenFiles
from airflow_delta.spark.errors import DataSourceWriteError
from airflow_delta.spark.statement.format_options import ReadOptions, WriteOptions

ALL_TYPES = """SELECT 1L AS id, CAST(2 AS TINYINT) AS b, 1.5F AS f, CAST('NaN' AS DOUBLE) AS d, 1.50BD AS m, 'x' AS s,
    X'01' AS bin, true AS ok, DATE'1000-01-02' AS day,
    TIMESTAMP'2020-01-01 03:04:05.000006' AS at, TIMESTAMP_NTZ'1900-01-01 00:00:00' AS ntz,
    array(1, NULL) AS list, map('k', 1) AS pairs, named_struct('a', 1, 'b_c', array(named_struct('z', 'q'))) AS deep
    UNION ALL SELECT 2L, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"""


class TestReading:
    def test_rows_of_every_type_are_those_that_the_scan_gives(self, delta, table, write_rows):
        write_rows(ALL_TYPES)
        shown = delta.read.format("delta").load(table)
        scanned = DeltaTable.forPath(delta, table).toDF()
        assert shown.schema == scanned.schema
        assert sorted(map(str, shown.collect())) == sorted(map(str, scanned.collect()))

    def test_partitions_deletion_vectors_and_mapped_columns_are_read_right(self, delta, table, write_rows, reference_rows):
        properties = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
        write_rows("SELECT id, id % 2 AS part FROM range(6)", partition_by=("part",), properties=properties)
        DeltaTable.forPath(delta, table).delete("id = 3")
        DeltaLog.for_table(table).alter().rename_column("id", "number")
        rows = delta.read.format("delta").load(table).where("part = 1").sort("number").collect()
        assert [tuple(row) for row in rows] == [(1, 1), (5, 1)]

    def test_of_a_schema_only_its_columns_are_read_in_its_order(self, delta, table, write_rows):
        write_rows("SELECT id, id * 2 AS x, CONCAT('n', id) AS name FROM range(3)")
        shown = delta.read.format("delta").schema("name STRING, id BIGINT").load(table)
        assert [tuple(row) for row in shown.sort("id").collect()] == [("n0", 0), ("n1", 1), ("n2", 2)]

    def test_the_names_of_a_schema_are_those_of_columns_in_any_case_or_refused(self, delta, table, write_rows):
        write_rows("SELECT 1L AS id, 'a' AS Name", properties={"delta.enableChangeDataFeed": "true"})
        reader = delta.read.format("delta")
        shown = reader.schema("NAME STRING, ID BIGINT").load(table)
        assert [row.asDict() for row in shown.collect()] == [{"NAME": "a", "ID": 1}]
        changes = reader.option("readChangeFeed", "true").option("startingVersion", 0)
        assert [tuple(row) for row in changes.schema("NAME STRING").load(table).collect()] == [("a",)]
        with pytest.raises(Exception, match=r"DELTA_SCHEMA_MISMATCH.*nick: there is no such column"):
            delta.read.format("delta").schema("nick STRING").load(table).collect()

    def test_older_versions_are_read_by_number_and_by_time(self, delta, table, write_rows):
        write_rows("SELECT 1L AS id")
        write_rows("SELECT 2L AS id")
        assert delta.read.format("delta").option("versionAsOf", 0).load(table).count() == 1
        for version, hour in enumerate((10, 11)):
            moment = dt.datetime(2020, 1, 1, hour, tzinfo=dt.UTC).timestamp()
            os.utime(f"{table}/_delta_log/{version:020}.json", (moment, moment))
        assert delta.read.format("delta").option("timestampAsOf", "2020-01-01T10:30:00Z").load(table).count() == 1

    def test_changes_are_read_by_version(self, delta, table, write_rows):
        write_rows("SELECT 1L AS id", properties={"delta.enableChangeDataFeed": "true"})
        DeltaTable.forPath(delta, table).delete("id = 1")
        feed = delta.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(table)
        rows = feed.sort("_commit_version").select("id", "_change_type", "_commit_version").collect()
        assert [tuple(row) for row in rows] == [(1, "insert", 0), (1, "delete", 1)]

    def test_the_changes_of_many_files_are_read_by_many_tasks(self, delta, table, write_rows):
        properties = {"delta.enableChangeDataFeed": "true"}
        write_rows("SELECT id, id % 3 AS part FROM range(9)", partition_by=("part",), properties=properties)
        DeltaTable.forPath(delta, table).update("id % 2 = 0", {"id": "id + 100"})
        feed = delta.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(table)
        kinds = ("insert", "update_preimage", "update_postimage")
        rows = feed.select("id", "part", "_change_type", F.spark_partition_id().alias("task")).collect()
        assert len({row.task for row in rows}) > 1
        found = {kind: sorted((row.id, row.part) for row in rows if row._change_type == kind) for kind in kinds}
        even = range(0, 9, 2)
        expected = [[(i, i % 3) for i in range(9)], [(i, i % 3) for i in even], [(i + 100, i % 3) for i in even]]
        assert found == dict(zip(kinds, expected, strict=True))

    def test_a_filter_of_one_query_is_no_filter_of_the_next(self, delta, table, write_rows):
        write_rows("SELECT 1L AS id")
        write_rows("SELECT 2L AS id")
        rows = delta.read.format("delta").load(table)
        assert [row.id for row in rows.where("id > 1").collect()] == [2]
        assert sorted(row.id for row in rows.collect()) == [1, 2]

    def test_a_table_that_is_not_there_and_a_missing_path_are_refused(self, delta, table):
        with pytest.raises(AnalysisException, match="DELTA_TABLE_NOT_FOUND"):
            delta.read.format("delta").load(table).schema  # noqa: B018 - over Spark Connect, rows are analyzed when they are used
        with pytest.raises(AnalysisException, match="there is no path"):
            delta.read.format("delta").load().schema  # noqa: B018


def _names(table):
    return sorted(path.name for path in Path(table).iterdir())


def _adds(table):
    return DeltaLog.for_table(table).snapshot().files().to_pandas().itertuples()


def test_a_text_of_the_user_that_is_too_long_is_refused_before_rows_are_written():
    with pytest.raises(InvalidStatementError, match="at most 100000 characters, found 100001"):
        WriteOptions.of({"path": "t", "userMetadata": "x" * 100_001})


class TestWriting:
    def test_rows_of_every_type_make_a_table_that_others_read(self, delta, table, reference_rows):
        rows = delta.sql(ALL_TYPES)
        rows.write.format("delta").mode("append").option("userMetadata", "first").save(table)
        assert sorted(map(str, DeltaTable.forPath(delta, table).toDF().collect())) == sorted(map(str, rows.collect()))
        assert reference_rows(columns="id, b, f, m, s, ok, day")[0] == (
            1,
            2,
            1.5,
            Decimal("1.50"),
            "x",
            True,
            dt.date(1000, 1, 2),
        )
        (entry,) = DeltaLog.for_table(table).history()
        assert (entry.commit_info.operation_metrics["numOutputRows"], entry.commit_info.origin.user_metadata) == ("2", "first")

    def test_an_append_adds_and_an_overwrite_replaces_each_by_one_commit(self, delta, table, write_rows, reference_rows):
        write_rows("SELECT 1L AS id, 'a' AS name")
        delta.sql("SELECT 'b' AS NAME, 2 AS id").write.format("delta").mode("append").save(table)
        assert reference_rows() == [(1, "a"), (2, "b")]
        delta.range(3, 5).write.format("delta").mode("overwrite").save(table)
        assert reference_rows() == [(3, None), (4, None)]
        assert [commit.version for commit in DeltaLog.for_table(table).history()] == [2, 1, 0]

    def test_rows_go_to_their_partitions_and_bound_by_right_statistics(self, delta, table, write_rows, reference_rows):
        write_rows("SELECT 0L AS id, 'p0' AS part, 0.0D AS x", partition_by=("part",))
        rows = delta.range(100).select("id", F.when(F.col("id") % 3 > 0, F.concat(F.lit("p"), F.col("id") % 3)).alias("part"))
        rows.write.format("delta").mode("append").save(table)
        expected = [(0, "p0"), *((i, f"p{i % 3}" if i % 3 else None) for i in range(100))]
        assert sorted(reference_rows(order="id, part", columns="id, part"), key=str) == sorted(expected, key=str)
        for file in _adds(table):
            stats = json.loads(file.stats)
            assert stats["minValues"]["id"] <= stats["maxValues"]["id"]
        assert {dict(file.partition_values)["part"] for file in _adds(table)} == {"p0", "p1", "p2", None}

    def test_the_tables_codec_is_kept(self, delta, table):
        schema = StructType((StructField("id", LONG),))
        DeltaLog.for_table(table).create(NewTable(schema=schema, properties={"delta.parquet.compression.codec": "zstd"}))
        delta.range(10).coalesce(1).write.format("delta").mode("append").save(table)
        (file,) = _adds(table)
        assert pq.read_metadata(f"{table}/{file.path}").row_group(0).column(0).compression == "ZSTD"

    def test_rows_that_do_not_fit_are_refused_before_any_is_written(self, delta, table, write_rows, reference_rows):
        write_rows("SELECT 1L AS id")
        with pytest.raises(AnalysisException, match="DELTA_SCHEMA_MISMATCH"):
            delta.sql("SELECT 2L AS id, 3 AS more").write.format("delta").mode("append").save(table)
        assert reference_rows() == [(1,)]

    def test_members_of_one_name_are_refused_before_one_of_them_is_lost(self, delta, table):
        DeltaTable.create(delta).location(table).addColumn("l", "ARRAY<STRUCT<a: INT>>").execute()
        rows = delta.sql("SELECT ARRAY(NAMED_STRUCT('a', 1, 'A', 2)) AS l")
        with pytest.raises(Exception, match=r"l\.a: 2 columns of this name"):
            rows.write.format("delta").mode("append").save(table)
        with pytest.raises(SchemaMismatchError, match=r"l\.a: 2 columns of this name"):
            delta_writer(rows).mode("append").save(table)

    def test_null_in_a_column_that_takes_none_fails_and_leaves_no_file(self, delta, table, reference_rows):
        DeltaTable.create(delta).location(table).addColumn("id", "BIGINT", nullable=False).execute()
        # One task: Spark aborts without waiting for the others, and what these still write a vacuum finds.
        rows = delta.sql("SELECT IF(id < 2, id, NULL) AS id FROM range(0, 3, 1, 1)")
        with pytest.raises(Exception, match="NOT NULL"):
            rows.write.format("delta").mode("append").save(table)
        assert _names(table) == ["_delta_log"]

    def test_an_empty_text_in_a_partition_column_that_takes_no_null_fails(self, delta, table):
        made = DeltaTable.create(delta).location(table).addColumn("id", "BIGINT").addColumn("p", "STRING", nullable=False)
        made.partitionedBy("p").execute()
        with pytest.raises(Exception, match="violate NOT NULL of p"):
            delta.sql("SELECT 1L AS id, '' AS p").write.format("delta").mode("append").save(table)

    def test_a_text_that_is_longer_than_its_column_takes_fails(self, delta, table, reference_rows):
        DeltaTable.create(delta).location(table).addColumn("v", "VARCHAR(2)").execute()
        delta.sql("SELECT 'äö' AS v UNION ALL SELECT NULL").write.format("delta").mode("append").save(table)
        with pytest.raises(Exception, match="the length of v"):
            delta.sql("SELECT 'abc' AS v").write.format("delta").mode("append").save(table)
        assert reference_rows(order="v") == [(None,), ("äö",)]

    def test_a_table_with_lengths_inside_a_column_is_refused(self, delta, table):
        columns = {CHAR_VARCHAR: "struct<a:varchar(2)>"}
        inside = StructField("s", StructType((StructField("a", STRING),)), metadata=columns)
        DeltaLog.for_table(table).create(NewTable(schema=StructType((StructField("id", LONG), inside))))
        with pytest.raises(AnalysisException, match=r"the lengths inside s \(struct<a:varchar\(2\)>\).*delta_writer\(df\)"):
            delta.sql("SELECT 1L AS id, named_struct('a', 'xyz') AS s").write.format("delta").mode("append").save(table)
        assert _names(table) == ["_delta_log"]
        with pytest.raises(ConstraintViolatedError, match=r"the length of s \("):
            delta_writer(delta.sql("SELECT 1L AS id, named_struct('a', 'xyz') AS s")).mode("append").save(table)

    def test_a_table_whose_constraints_need_sql_is_refused(self, delta, table, write_rows):
        write_rows("SELECT 1L AS id")
        DeltaLog.for_table(table).alter().add_constraint("positive", "id > 0")
        with pytest.raises(AnalysisException, match="checkConstraints"):
            delta.range(3).write.format("delta").mode("append").save(table)
        with pytest.raises(DataSourceWriteError) as caught:
            plan_write(WriteOptions(path=table), StructType((StructField("id", LONG),)), overwrite=False)
        assert caught.value.features == ("checkConstraints",)

    def test_a_table_with_defaults_is_left_to_the_writer_that_the_error_names(self, delta, table, reference_rows):
        new = NewTable(schema=StructType((with_default(StructField("id", LONG), "7"),)))
        DeltaLog.for_table(table).create(new)
        with pytest.raises(
            AnalysisException, match=r'format\("delta"\) cannot write .*allowColumnDefaults.*delta_writer\(df\)'
        ):
            delta.range(1).write.format("delta").mode("append").save(table)
        delta_writer(delta.range(1)).mode("append").save(table)
        assert reference_rows() == [(0,)]

    def test_a_feature_that_no_writer_here_supports_is_not_blamed_on_the_data_source(self, table):
        log = DeltaLog.for_table(table)
        log.create(NewTable(schema=StructType((StructField("id", LONG),))))
        protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["novelty"]}
        log.store.write_if_absent(commit_path(1), json.dumps({"protocol": protocol}).encode())
        with pytest.raises(UnsupportedWriterFeatureError) as caught:
            plan_write(WriteOptions(path=table), StructType((StructField("id", LONG),)), overwrite=False)
        assert (type(caught.value), caught.value.features) == (UnsupportedWriterFeatureError, ("novelty",))

    def test_what_the_api_cannot_do_is_refused(self, delta, table, write_rows):
        rows = delta.range(3).write.format("delta")
        with pytest.raises(AnalysisException, match="ErrorIfExists"):
            rows.save(table)
        with pytest.raises(AnalysisException, match="mergeschema"):
            rows.mode("append").option("mergeSchema", "true").save(table)
        with pytest.raises(AnalysisException, match="names of tables"):
            delta.range(3).write.format("delta").saveAsTable("birds")
        assert not Path(table).exists()


class TestCommitting:
    rows = StructType((StructField("id", LONG),))

    def _written(self, table):
        writer = DeltaWriter(plan_write(WriteOptions(path=table), self.rows, overwrite=False))
        return writer, writer.write(iter([pa.RecordBatch.from_pydict({"id": [1, 2]})]))

    def test_a_file_ends_with_the_row_group_that_reaches_the_tables_file_size(self, table):
        DeltaLog.for_table(table).create(NewTable(schema=self.rows, properties={"delta.targetFileSize": "1mb"}))
        writer = DeltaWriter(plan_write(WriteOptions(path=table), self.rows, overwrite=False))
        batches = (pa.RecordBatch.from_pydict({"id": range(first, first + (1 << 20))}) for first in (0, 1 << 20))
        written = writer.write(batches)
        assert [file["num_records"] for file in written.files] == [1 << 20, 1 << 20]

    def test_files_of_attempts_that_are_not_named_are_not_committed(self, table, reference_rows):
        writer, kept = self._written(table)
        writer.write(iter([pa.RecordBatch.from_pydict({"id": [3]})]))
        writer.commit([kept, None])
        assert reference_rows() == [(1,), (2,)]

    def test_an_abort_without_a_commit_deletes_the_files(self, table):
        writer, kept = self._written(table)
        writer.abort([kept, None])
        assert not list(Path(table).rglob("*.parquet"))

    def test_an_abort_after_a_commit_of_unknown_outcome_deletes_nothing(self, table, reference_rows, monkeypatch):
        writer, kept = self._written(table)

        def lost(plan, files):
            commit_files(plan, files)
            raise CommitStateUnknownError(table=table, version=0, txn_id="1", detail="the answer was lost")

        monkeypatch.setattr("airflow_delta.spark.data_source.writer.commit_files", lost)
        with pytest.raises(CommitStateUnknownError):
            writer.commit([kept])
        writer.abort([kept])
        assert reference_rows() == [(1,), (2,)]

    def test_a_mark_that_stays_does_not_make_a_commit_fail(self, table, reference_rows, monkeypatch):
        writer, kept = self._written(table)

        class Unwilling(LocalFileSystem):
            def delete_file(self, path):
                raise PermissionError(path)

        monkeypatch.setattr(writer, "_filesystems", lambda: (Unwilling(), table))
        writer.commit([kept])
        assert reference_rows() == [(1,), (2,)]

    def test_a_refused_commit_deletes_the_files(self, table, write_rows):
        writer, kept = self._written(table)
        write_rows("SELECT 'x' AS other")
        with pytest.raises(Exception, match="DELTA_"):
            writer.commit([kept])
        writer.abort([kept])
        assert len(list(Path(table).rglob("*.parquet"))) == len(ReferenceTable(table).file_uris())

    def test_messages_are_those_of_spark(self, table):
        _, kept = self._written(table)
        assert isinstance(kept, WrittenFiles)
        assert [file["num_records"] for file in kept.files] == [2]


@pytest.mark.parametrize(
    ("options", "detail"),
    [
        ({}, "no path"),
        ({"path": "t", "versionAsOf": "x"}, "versionAsOf must be the number of a version"),
        ({"path": "t", "versionAsOf": "1", "timestampAsOf": "2020-01-01T00:00:00Z"}, "exclude"),
        ({"path": "t", "timestampAsOf": "2020-01-01"}, "with its time zone"),
        ({"path": "t", "readChangeFeed": "true"}, "startingVersion"),
        ({"path": "t", "readChangeFeed": "true", "startingVersion": "0", "versionAsOf": "1"}, "excludes"),
        ({"path": "t", "ignoreDeletes": "true"}, "ignoredeletes are not supported, only path, versionAsOf"),
        ({"path": "t", "startingVersion": "3"}, "readChangeFeed"),
        ({"path": "t", "readChangeFeed": "yes", "startingVersion": "3"}, "must be true or false"),
    ],
)
def test_invalid_options_are_refused(options, detail):
    with pytest.raises(InvalidStatementError, match=detail):
        ReadOptions.of(options)


def test_options_of_the_change_feed_are_understood():
    options = ReadOptions.of(
        {"path": "t", "readChangeFeed": "TRUE", "startingTimestamp": "2020-01-01T00:00:00Z", "endingVersion": "7"}
    )
    assert options.changes == ("2020-01-01T00:00:00Z", 7)
