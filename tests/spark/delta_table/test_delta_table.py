"""``DeltaTable``: each method's result as other engines see it."""

import datetime as dt
import json
import os
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable as ReferenceTable
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql.types import CharType, LongType, StringType, StructField, StructType, VarcharType

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, RetentionTooShortError, TableNotFoundError, VersionNotFoundError
from airflow_delta.core.schema.char_columns import CHAR_VARCHAR
from airflow_delta.core.statements import ConvertStatement
from airflow_delta.jobs.run import execute
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.spark import DeltaTable, sql
from airflow_delta.spark.delta_table import delta_table
from airflow_delta.spark.delta_table.delta_table import DeltaTable as SameClass
from airflow_delta.spark.errors import ExpressionNotTextError, TableNameUnsupportedError
from tests.spark.session_settings import session_settings


def instants(rows):
    return sorted(tuple(row) for row in rows.selectExpr("id", "unix_micros(t)").collect())


def _size(reference):
    return sum(Path(uri.removeprefix("file://")).stat().st_size for uri in reference.file_uris())


BIRDS = [(1, "wren", 9), (2, "owl", 480), (3, None, 20)]


def test_the_class_is_there_under_the_short_name():
    assert DeltaTable is SameClass


class TestFindingTables:
    def test_a_path_without_a_table_is_refused(self, spark, tmp_path):
        with pytest.raises(TableNotFoundError):
            DeltaTable.forPath(spark, str(tmp_path))
        assert not DeltaTable.isDeltaTable(spark, str(tmp_path))

    def test_a_table_is_found_by_path_and_by_quoted_path(self, spark, table, birds):
        assert DeltaTable.isDeltaTable(spark, table)
        assert DeltaTable.isDeltaTable(spark, f"delta.`{table}`")
        assert DeltaTable.forName(spark, f"delta.`{table}`").toDF().count() == 3

    @pytest.mark.parametrize("name", ["birds", "default.birds", "parquet.`/birds`"])
    def test_a_name_of_a_catalog_is_refused(self, spark, name):
        with pytest.raises(TableNameUnsupportedError, match="found by their path"):
            DeltaTable.forName(spark, name)

    def test_a_version_that_was_asked_for_is_shown_and_takes_no_change(self, spark, table, birds):
        birds.delete("id = 1")
        old = DeltaTable.forPath(spark, table, version=0)
        assert sorted(old.toDF().toPandas()["id"]) == [1, 2, 3]
        with pytest.raises(InvalidStatementError, match="opened at version 0"):
            old.delete()
        with pytest.raises(VersionNotFoundError):
            DeltaTable.forPath(spark, table, version=7)

    def test_a_time_is_read_in_the_zone_of_the_session(self, spark, table, birds):
        birds.delete("id = 1")
        # The commits of two versions, an hour apart.
        for version, hour in enumerate((10, 11)):
            moment = dt.datetime(2020, 1, 1, hour, tzinfo=dt.UTC).timestamp()
            os.utime(f"{table}/_delta_log/{version:020}.json", (moment, moment))
        assert DeltaTable.forPath(spark, table, timestamp="2020-01-01 10:30:00").toDF().count() == 3
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        try:
            assert DeltaTable.forPath(spark, table, timestamp="2020-01-01 20:00:00").toDF().count() == 2
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")
        with pytest.raises(InvalidStatementError, match="no time"):
            DeltaTable.forPath(spark, table, timestamp="one of these days")

    def test_settings_of_hadoop_become_storage_options_and_unknown_ones_are_refused(self, spark, table, birds):
        assert DeltaTable.forPath(spark, table, {}).toDF().count() == 3
        with pytest.raises(InvalidStatementError, match="sets fs") as refused:
            DeltaTable.forPath(spark, table, {"fs.x": "hunter2"})
        assert "hunter2" not in str(refused.value)


class TestRows:
    def test_rows_come_with_the_columns_and_condition_asked_for(self, birds):
        assert [tuple(row) for row in birds.toDF(["name"], "grams > 100").collect()] == [("owl",)]

    def test_rows_are_those_of_the_newest_version_each_time(self, birds):
        assert birds.toDF().count() == 3
        birds.delete("id = 1")
        assert birds.toDF().count() == 2

    def test_a_delete_takes_text_and_columns(self, birds, reference_rows):
        birds.delete("grams < 10")
        birds.delete(F.col("name") == "owl")
        assert reference_rows() == BIRDS[2:]
        birds.delete()
        assert reference_rows() == []

    def test_a_delete_takes_a_column_of_the_rows_shown_before(self, birds, reference_rows):
        rows = birds.toDF()
        birds.delete(rows["grams"].between(10, 30) | (rows.name == "wren"))
        assert reference_rows() == BIRDS[1:2]

    def test_an_update_takes_text_and_columns_and_the_alias_of_the_table(self, birds, reference_rows):
        birds.update(condition="name = 'owl'", set={"grams": "grams + 1"})
        birds.alias("b").update(F.col("b.id") == 1, {"b.name": F.upper("b.name"), "grams": F.lit(10)})
        birds.update(set={"name": F.coalesce(F.col("name"), F.lit("it's"))})
        assert reference_rows() == [(1, "WREN", 10), (2, "owl", 481), (3, "it's", 20)]

    def test_an_update_without_values_is_refused(self, birds):
        with pytest.raises(ValueError, match="expected set to map columns to values, found None"):
            birds.update("id = 1")
        with pytest.raises(TypeError, match="a text or a Column"):
            birds.update(set={"grams": 1})

    def test_a_python_function_is_refused_by_name_and_nothing_is_changed(self, birds, reference_rows):
        double = F.udf(lambda grams: grams * 2, "int")
        with pytest.raises(ExpressionNotTextError, match="SQL text"):
            birds.update(set={"grams": double("grams")})
        assert reference_rows() == BIRDS

    def test_a_registered_function_is_called_by_its_name(self, spark, birds, reference_rows):
        spark.udf.register("doubled", lambda grams: grams * 2, "int")
        birds.update("id = 1", {"grams": "doubled(grams)"})
        assert reference_rows()[0] == (1, "wren", 18)


class TestHistory:
    def test_the_history_has_the_columns_of_delta_spark_newest_first(self, birds):
        birds.delete("id = 1")
        history = birds.history()
        assert history.columns[:7] == ["version", "timestamp", "userId", "userName", "operation", "operationParameters", "job"]
        assert [(row.version, row.operation) for row in history.collect()] == [(1, "DELETE"), (0, "CREATE TABLE AS SELECT")]
        last = birds.history(1).collect()
        assert [row.operationMetrics["numDeletedRows"] for row in last] == ["1"]
        assert last[0].readVersion == 0
        assert last[0].engineInfo.startswith("airflow-delta/")

    def test_times_of_the_history_are_those_of_the_log(self, spark, table, birds):
        (row,) = birds.history().selectExpr("unix_millis(timestamp) AS at").collect()
        assert row["at"] == DeltaLog.for_table(table).snapshot().timestamp

    def test_details_tell_what_the_table_is(self, table, birds):
        (row,) = birds.detail().collect()
        reference = ReferenceTable(table)
        assert (row.format, row.id, row.numFiles) == ("delta", str(reference.metadata().id), len(reference.file_uris()))
        assert row.location == f"file:{table}"
        assert row.sizeInBytes == _size(reference)
        assert row.partitionColumns == row.clusteringColumns == []
        assert (row.minReaderVersion, row.minWriterVersion) == (
            reference.protocol().min_reader_version,
            reference.protocol().min_writer_version,
        )

    def test_details_tell_the_in_commit_timestamp_where_the_table_has_these(self, spark, table, write_rows):
        write_rows("SELECT 1 AS id", properties={"delta.enableInCommitTimestamps": "true"})
        commit = Path(table, "_delta_log", f"{0:020d}.json")
        os.utime(commit, (1_700_000_000, 1_700_000_000))  # when its file was written says nothing
        carried = json.loads(commit.read_text().splitlines()[0])["commitInfo"]["inCommitTimestamp"]
        shown = DeltaTable.forPath(spark, table)
        for frame, column in ((shown.detail(), "lastModified"), (shown.history(), "timestamp")):
            assert frame.selectExpr(f"unix_millis({column})").first()[0] == carried

    def test_restore_brings_rows_back_and_tells_what_came(self, spark, table, birds, reference_rows):
        birds.delete("id < 3")
        (row,) = birds.restoreToVersion(0).collect()
        assert reference_rows() == BIRDS
        assert (row.num_restored_files, row.num_removed_files) == (1, 1)
        moment = dt.datetime(2020, 1, 1, tzinfo=dt.UTC).timestamp()
        os.utime(f"{table}/_delta_log/{1:020}.json", (moment + 60, moment + 60))
        os.utime(f"{table}/_delta_log/{0:020}.json", (moment, moment))
        birds.restoreToTimestamp("2020-01-01 00:02:00")
        assert reference_rows() == BIRDS[2:]

    def test_a_shallow_clone_shares_files_and_a_deep_one_outlives_its_source(self, spark, tmp_path, table, birds):
        birds.delete("id = 1")
        copy = birds.cloneAtVersion(0, str(tmp_path / "copy"), isShallow=True, properties={"owner": "me"})
        assert copy.toDF().count() == 3
        assert copy.detail().head().properties["owner"] == "me"
        assert birds.clone(f"delta.`{tmp_path / 'other'}`", isShallow=True).toDF().count() == 2
        birds.clone(str(tmp_path / "deep"))
        older = birds.cloneAtVersion(0, str(tmp_path / "deep"), replace=True)
        shutil.rmtree(table)
        assert [row.id for row in older.toDF().sort("id").collect()] == [1, 2, 3]
        assert ReferenceTable(tmp_path / "deep", version=0).to_pyarrow_table().num_rows == 2
        [latest, _] = older.history().collect()
        assert (latest.operation, latest.operationMetrics["numRemovedFiles"]) == ("CLONE", "1")

    def test_a_clone_is_found_as_its_table_is(self, spark, tmp_path, birds, monkeypatch):
        calls = []

        def opened(*arguments):
            calls.append(arguments)
            return DeltaLog.for_table(str(tmp_path / "copy"))

        options = {"key": "k"}
        monkeypatch.setattr(delta_table, "table_log", opened)
        monkeypatch.setattr(type(birds._log.store), "storage_options", options)
        assert birds.clone("hdfs://lake/copy", isShallow=True).toDF().count() == 3
        assert calls == [(spark, "hdfs://lake/copy", None, ())]


class TestMaintenance:
    def test_a_vacuum_deletes_what_no_version_needs_and_answers_nothing(self, spark, table, birds, reference_rows):
        birds.delete("id = 1")
        setting = r"spark\.databricks\.delta\.retentionDurationCheck\.enabled=false in the session"
        with pytest.raises(RetentionTooShortError, match=setting):
            birds.vacuum(0)
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        try:
            answer = birds.vacuum(0)
        finally:
            spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
        assert answer.columns == []
        assert answer.count() == 0
        with pytest.raises(Exception, match="not found"):
            ReferenceTable(table, version=0).to_pyarrow_table()
        assert reference_rows() == BIRDS[1:]

    def test_compaction_keeps_the_rows_and_tells_the_files(self, table, birds, write_rows, reference_rows):
        write_rows("SELECT 4L AS id, 'tit' AS name, 11 AS grams")
        (row,) = birds.optimize().executeCompaction().collect()
        assert (row.path, row.metrics.numFilesAdded, row.metrics.numFilesRemoved) == (f"file:{table}", 1, 2)
        assert row.metrics.filesAdded.totalSize == _size(ReferenceTable(table))
        assert reference_rows() == [*BIRDS, (4, "tit", 11)]

    def test_z_order_keeps_the_rows_and_is_in_the_history(self, birds, write_rows, reference_rows):
        write_rows("SELECT 4L AS id, 'tit' AS name, 11 AS grams")
        (row,) = birds.optimize().executeZOrderBy(["grams", "id"]).collect()
        assert (row.metrics.numFilesAdded, row.metrics.numFilesRemoved) == (1, 2)
        assert reference_rows() == [*BIRDS, (4, "tit", 11)]
        assert birds.history(1).head().operationParameters["zOrderBy"] == '["grams","id"]'
        with pytest.raises(TypeError, match="expected cols to be a text"):
            birds.optimize().executeZOrderBy(7)

    def test_compaction_of_some_partitions_leaves_the_others(self, spark, table, write_rows):
        for _ in range(2):
            write_rows("SELECT id, id AS day FROM range(2)", partition_by=("day",))
        DeltaTable.forPath(spark, table).optimize().where("day = 0 -- today").where("day < 1 OR false").executeCompaction()
        assert len(ReferenceTable(table).file_uris([("day", "=", "0")])) == 1
        assert len(ReferenceTable(table).file_uris([("day", "=", "1")])) == 2

    def test_manifests_are_written_in_the_one_mode_there_is(self, table, birds):
        birds.generate("SYMLINK_FORMAT_MANIFEST")
        assert len(Path(table, "_symlink_format_manifest/manifest").read_text().splitlines()) == 1
        with pytest.raises(InvalidStatementError, match="csv"):
            birds.generate("csv")

    def test_the_protocol_is_upgraded_and_features_come_and_go(self, table, birds):
        birds.upgradeTableProtocol(3, 7)
        birds.addFeatureSupport("deletionVectors")
        assert "deletionVectors" in ReferenceTable(table).protocol().writer_features
        birds.dropFeatureSupport("deletionVectors")
        assert "deletionVectors" not in birds.detail().head().tableFeatures


class TestConversion:
    def test_parquet_files_become_a_table_in_place(self, spark, tmp_path, table, reference_rows):
        spark.range(4).selectExpr("id", "CAST(id % 2 AS INT) AS part").write.partitionBy("part").parquet(table)
        converted = DeltaTable.convertToDelta(spark, f"parquet.`{table}`", "part int")
        assert converted.detail().head().partitionColumns == ["part"]
        assert reference_rows(columns="id, part") == [(0, 0), (1, 1), (2, 0), (3, 1)]
        again = DeltaTable.convertToDelta(spark, f"parquet.`{table}`", StructType([StructField("part", LongType())]))
        assert again.history().count() == 1

    @pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin", "+02:00", "GMT+2"])
    @pytest.mark.parametrize("interface", ["method", "text", "job"])
    def test_timestamps_of_directories_are_the_instants_that_spark_reads_in_the_session_s_zone(
        self, spark, table, zone, interface
    ):
        times = [
            "2024-07-01 12:00:00",
            "2024-03-10 02:30:00",
            "2024-11-03 01:30:00",
            "9999-12-31 23:59:59",
            "0001-01-01 00:00:00",
        ]
        spark.createDataFrame(list(enumerate(times)), "id INT, t STRING").write.partitionBy("t").parquet(table)
        with session_settings(spark, {"spark.sql.session.timeZone": zone}):
            expected = instants(spark.read.schema("id INT, t TIMESTAMP").parquet(table))
            if interface == "method":
                DeltaTable.convertToDelta(spark, f"parquet.`{table}`", "t TIMESTAMP")
            elif interface == "text":
                sql(spark, f"CONVERT TO DELTA parquet.`{table}` PARTITIONED BY (t TIMESTAMP)")
            else:
                statement = ConvertStatement(table=table, partition_by="t TIMESTAMP")
                execute(spark, DeltaLog.for_table(table), JobSpec(statement=statement))
            assert instants(DeltaTable.forPath(spark, table).toDF()) == expected
            assert sql(spark, f"SELECT id FROM delta.`{table}` WHERE t = TIMESTAMP'{times[0]}'").collect() == [(0,)]

    def test_only_parquet_by_its_path_is_converted(self, spark):
        with pytest.raises(TableNameUnsupportedError):
            DeltaTable.convertToDelta(spark, "my_table")


class TestBuilders:
    def test_a_table_is_created_as_described(self, spark, table, reference_rows):
        made = (
            DeltaTable.create(spark)
            .location(table)
            .addColumn("id", "BIGINT", nullable=False, comment="the number")
            .addColumn("name", StringType())
            .addColumns([StructField("day", StringType())])
            .partitionedBy("day")
            .property("owner", "me")
            .comment("birds")
            .execute()
        )
        reference = ReferenceTable(table)
        assert [(field.name, field.nullable) for field in reference.schema().fields] == [
            ("id", False),
            ("name", True),
            ("day", True),
        ]
        assert reference.metadata().partition_columns == ["day"]
        assert (reference.metadata().description, reference.metadata().configuration["owner"]) == ("birds", "me")
        assert made.toDF().schema["id"].metadata["comment"] == "the number"

    def test_a_char_of_sparks_types_is_a_string_of_limited_length_in_the_log(self, spark, table):
        made = DeltaTable.create(spark).location(table).addColumn("c", CharType(3))
        made = made.addColumns([StructField("s", StructType([StructField("v", VarcharType(2))]))]).execute()
        fields = DeltaLog.for_table(table).snapshot().schema.fields
        assert [str(field) for field in fields] == ["c:string", "s:struct<v:string>"]
        assert [field.metadata[CHAR_VARCHAR] for field in fields] == ["char(3)", "struct<v:varchar(2)>"]
        assert made.toDF().collect() == []

    def test_a_table_that_is_there_is_an_error_or_left_or_replaced(self, spark, table, birds):
        with pytest.raises(Exception, match="already"):
            DeltaTable.create(spark).location(table).addColumn("id", "INT").execute()
        assert DeltaTable.createIfNotExists(spark).location(table).addColumn("x", "INT").execute().toDF().columns == [
            "id",
            "name",
            "grams",
        ]
        assert DeltaTable.replace(spark).tableName(f"delta.`{table}`").addColumn("x", "INT").execute().toDF().columns == ["x"]
        assert DeltaTable.createOrReplace(spark).location(table).addColumn("y", "INT").execute().toDF().columns == ["y"]
        assert [row.version for row in birds.history().collect()] == [2, 1, 0]

    def test_replacing_what_is_not_there_is_refused(self, spark, table):
        with pytest.raises(TableNotFoundError):
            DeltaTable.replace(spark).location(table).addColumn("x", "INT").execute()

    def test_a_name_of_a_catalog_and_a_missing_place_are_refused(self, spark):
        with pytest.raises(TableNameUnsupportedError):
            DeltaTable.create(spark).tableName("birds")
        with pytest.raises(InvalidStatementError, match="location"):
            DeltaTable.create(spark).addColumn("x", "INT").execute()
