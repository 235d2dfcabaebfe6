"""Tables as DataFrames: against what Delta Lake's own Spark read, by both ways to read."""

import json
import runpy
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.actions import ADD_FILE
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidPredicateError, MissingDataFileError
from airflow_delta.core.schema import MappingMode, StructField, StructType, without_column_mapping
from airflow_delta.core.schema.data_types import LONG
from airflow_delta.spark.io import jvm_scan, scan
from airflow_delta.spark.io.scan import read_files, read_table
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.jvm import is_connect
from airflow_delta.spark.schema_conversion import from_spark
from airflow_delta.spark.session import temporary_views
from tests.golden_tables import TABLES
from tests.spark.needs import looks_into_the_jvm
from tests.spark.session_settings import session_settings

NAMES = [
    "append_only",
    "cdf",
    "cdf_dv",
    "check_constraints",
    "checkpoint_struct_stats",
    "clustered",
    "column_mapping_name",
    "column_mapping_special_names",
    "converted_parquet",
    "default_columns",
    "dv_basic",
    "dv_optimized",
    "empty",
    "generated_columns",
    "identity_columns",
    "in_commit_timestamps",
    "legacy_protocol_1_2",
    "log_compaction",
    "many_commits",
    "multipart_checkpoint",
    "nested",
    "overwrites",
    "partitioned_all_types",
    "partitioned_special",
    "plain",
    "restored",
    "row_tracking",
    "scalar_types",
    "schema_evolution",
    "stats_config",
    "streamed",
    "timestamp_ntz",
    "type_widening",
    "v2_checkpoint_parquet",
    "vacuum_protocol_check",
    "variant",
]


@pytest.fixture(params=["jvm", "arrow"])
def reader(request, monkeypatch):
    """Each test runs with Spark's own reader and with Python workers."""
    monkeypatch.setattr(scan, "suits_jvm", lambda _uris, **__: request.param == "jvm")
    return request.param


def files(*paths):
    """Files as a scan takes them, of no partition and with no deletion vector."""
    rows = [{"path": path, "partition_values": [], "size": 1} for path in paths]
    return pa.Table.from_pylist(rows, schema=ADD_FILE).select(scan.SCANNED_COLUMNS)


def ids_below(root):
    """A table of one column of longs."""
    schema = StructType((StructField("id", LONG),))
    return TableFiles(table_uri=str(root), schema=schema, partition_columns=(), mapping=MappingMode.NONE)


def latest(table):
    return DeltaLog.for_table(str(table)).snapshot()


# -- what Delta Lake wrote


@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_read_equal(spark, reader, name):
    canon = runpy.run_path(str(TABLES / "canon.py"))
    snapshot = latest(TABLES / name / "table")
    expected = json.loads((TABLES / name / "expected.json").read_text())["versions"][str(snapshot.version)]
    frame = read_table(spark, snapshot)
    if name == "variant":  # PySpark's own toArrow fails where one is NULL
        rows = frame.collect()
    else:
        rows = zip(*(column.to_pylist(maps_as_pydicts=None) for column in frame.toArrow().columns), strict=True)
    found = canon["encode_rows"](rows, expected["schema"])

    shown, stored = from_spark(frame.schema), without_column_mapping(snapshot.schema)
    # Spark's own reader declares no column NOT NULL, which makes no difference to what is read. Defaults are left out: Spark
    # would evaluate them.
    assert [(field.name, str(field.type), field.metadata) for field in shown.fields] == [
        (field.name, str(field.type), {key: value for key, value in field.metadata.items() if key != "CURRENT_DEFAULT"})
        for field in stored.fields
    ]
    assert len(found) == expected["row_count"]
    assert canon["checksum"](found) == expected["sha256"]


# -- columns and rows


def test_columns_come_in_the_order_asked_for_and_rows_by_where(spark, reader, write_rows, table):
    write_rows("SELECT id, CAST(id % 3 AS STRING) AS p, id * 2 AS x FROM range(9)", partition_by="p")
    frame = read_table(spark, latest(table), ["x", "p"], where="p = '1' AND id > 1")

    assert frame.columns == ["x", "p"]
    assert sorted(frame.collect()) == [(8, "1"), (14, "1")]


def test_only_files_that_can_hold_such_rows_are_opened(spark, write_rows, table):
    write_rows("SELECT id, CAST(id % 3 AS STRING) AS p FROM range(9)", partition_by="p")
    for file in latest(table).files("p != '1'")["path"].to_pylist():
        Path(table, file).write_bytes(b"no Parquet")

    assert read_table(spark, latest(table), where="p = '1'").count() == 3


def test_a_condition_that_only_spark_can_take_apart_chooses_rows(spark, write_rows, table):
    write_rows("SELECT id, map('env', CONCAT('e', id)) AS props, id * 2 AS x FROM range(3)")

    assert read_table(spark, latest(table), ["x"], where="props.env = 'e2'").collect() == [(4,)]
    with pytest.raises(InvalidPredicateError, match="the columns are id, props, x"):
        read_table(spark, latest(table), where="nothing.env = 'e2'")


@pytest.mark.classic(reason="over Spark Connect, a text with ${ is refused")
def test_a_condition_means_its_own_characters_for_files_and_for_rows(spark, write_rows, table):
    write_rows("SELECT id, IF(id = 1, CONCAT('$', '{run.day}'), '2026-01-01') AS day FROM range(3)", partition_by="day")
    with session_settings(spark, {"run.day": "2026-01-01"}):
        assert read_table(spark, latest(table), ["id"], where=r"day = '${run.day}'").collect() == [(1,)]


def test_a_time_is_read_in_the_zone_of_the_session(spark, write_rows, table):
    write_rows("SELECT TIMESTAMP'2013-01-01 00:00:00Z' AS at, 1 AS id", partition_by="at")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert read_table(spark, latest(table), where="at = '2012-12-31 19:00:00'").count() == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


# -- files


def test_paths_are_taken_as_they_are_whatever_signs_they_hold(spark, reader, tmp_path, write_rows, table):
    if reader == "jvm" and is_connect(spark):
        pytest.skip("over Spark Connect, workers read what lies where it looks like a pattern")
    write_rows("SELECT id, CONCAT('v', id % 2) AS p FROM range(4)", partition_by="p")
    strange = tmp_path / "t[a]*{b,c} %20#?+&é"
    shutil.move(table, strange)

    assert sorted(read_table(spark, latest(strange)).collect()) == [(0, "v0"), (1, "v1"), (2, "v0"), (3, "v1")]


def test_directories_that_look_like_partitions_do_not_make_columns(spark, reader, tmp_path):
    folder = tmp_path / "id=7" / "q=x"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), folder / "f.parquet")

    assert read_files(spark, files("id=7/q=x/f.parquet"), ids_below(tmp_path)).collect() == [(1,)]


def test_rows_of_a_file_that_spark_spells_unlike_us_are_not_just_missing(spark, write_rows, table, monkeypatch):
    write_rows("SELECT id, 'x' AS p FROM range(4)", partition_by="p")
    monkeypatch.setattr(jvm_scan, "_as_metadata_path", lambda uri: uri)

    with pytest.raises(Exception, match="no partition values are known for file:/"):
        read_table(spark, latest(table)).collect()


@pytest.mark.parametrize("name", ["_hidden.parquet", ".hidden.parquet", "a:b.parquet", "a.parquet._COPYING_"])
def test_names_that_hadoop_hides_or_cannot_express_are_read(spark, tmp_path, name):
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / name)

    assert read_files(spark, files(name.replace(":", "%3A")), ids_below(tmp_path)).count() == 2


@pytest.mark.parametrize("insert", ["INSERT INTO", "INSERT OVERWRITE"])
def test_an_insert_of_sparks_into_a_view_of_the_rows_is_refused_and_leaves_the_files(spark, write_rows, table, insert):
    write_rows("SELECT 1L AS id")
    snapshot = DeltaLog.for_table(table).snapshot()
    views = temporary_views(spark, {"shown_rows": read_table(spark, snapshot)})
    with views, pytest.raises(AnalysisException, match="UNSUPPORTED_INSERT"):
        spark.sql(f"{insert} shown_rows SELECT 2L").collect()
    [path] = snapshot.files()["path"].to_pylist()
    assert pq.read_table(Path(table) / path).to_pylist() == [{"id": 1}]


def test_a_missing_file_is_named(spark, reader, write_rows, table):
    write_rows("SELECT id, 'x' AS p FROM range(4)", partition_by="p")
    path = latest(table).files()["path"][0].as_py()
    Path(table, path).unlink()

    with pytest.raises(Exception, match=path.rpartition("/")[2]) as caught:
        read_table(spark, latest(table)).collect()
    assert reader == "arrow" or isinstance(caught.value, MissingDataFileError)


@looks_into_the_jvm
def test_many_files_are_listed_by_as_many_tasks_as_there_are_cores(spark, tmp_path):
    names = [f"f{number}.parquet" for number in range(100)]
    for name in names:
        pq.write_table(pa.table({"id": [1]}), tmp_path / name)
    before = spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.parallelism")
    spark.sparkContext.setJobGroup("listing", "listing")
    frame = read_files(spark, files(*names), ids_below(tmp_path))
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # a busy machine learns of jobs late
    tracker = spark.sparkContext.statusTracker()
    stages = [stage for job in tracker.getJobIdsForGroup("listing") for stage in tracker.getJobInfo(job).stageIds]

    assert [tracker.getStageInfo(stage).numTasks for stage in stages] == [2]
    assert spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.parallelism") == before
    assert frame.agg(F.sum("id")).collect() == [(100,)]


def test_columns_named_like_our_own_are_the_tables(spark, tmp_path):
    rows = pa.table({"__file": ["mine"], "__known": ["too"], "day": ["monday"]})
    write_deltalake(str(tmp_path), rows, partition_by=["day"])

    read = read_table(spark, DeltaLog.for_table(str(tmp_path)).snapshot())

    assert read.toArrow().select(rows.column_names).to_pylist() == rows.to_pylist()
