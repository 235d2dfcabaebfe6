"""Which engine reads and writes files where: by the filesystem, by what the session's Hadoop has classes for, and by options.

No connector of Hadoop's for an object store is installed here. ``ViewFileSystemOverloadScheme`` stands for one: a filesystem of
Hadoop's for the scheme ``s3a``, which finds the files in a local directory.
"""

import uuid
from dataclasses import replace

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.spark.io.engines import Engine, choose_engine, engine_for
from airflow_delta.spark.io.scan import SCANNED_COLUMNS, read_files, suits_jvm
from airflow_delta.spark.io.table_files import TableFiles
from tests.spark.session_settings import session_settings

SERVER_IS_UNKNOWN = pytest.mark.classic(reason="over Spark Connect, object stores are read by workers, whatever Hadoop knows")
VIEW = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"


@pytest.fixture
def s3a(spark, tmp_path):
    """A URI of S3 under which only the session's Hadoop finds the directory ``tmp_path``."""
    bucket = f"bucket-{uuid.uuid4().hex}"
    settings = {
        "fs.s3a.impl": VIEW,
        "fs.viewfs.overload.scheme.target.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
        f"fs.viewfs.mounttable.{bucket}.link./lake": f"file://{tmp_path}",
    }
    with session_settings(spark, settings):
        yield f"s3a://{bucket}/lake"


@pytest.mark.parametrize(
    ("schemes", "known", "has_options", "engine"),
    [
        (["file"], [], False, Engine.JVM),
        (["file"], [], True, Engine.JVM),
        (["hdfs", "viewfs"], [], False, Engine.JVM),
        (["s3a"], [], False, Engine.ARROW),
        (["s3a"], ["s3a"], False, Engine.JVM),
        (["s3a"], ["s3a"], True, Engine.ARROW),
        (["s3a", "gs"], ["s3a"], False, Engine.ARROW),
        (["s3a", "file"], ["s3a"], False, Engine.JVM),
        ([], [], True, Engine.JVM),
    ],
)
def test_the_jvm_takes_what_hadoop_knows_unless_options_say_how_it_is_reached(schemes, known, has_options, engine):
    assert choose_engine(schemes, known=known, has_options=has_options) is engine


@pytest.mark.parametrize(
    ("uri", "engine"),
    [
        ("/lake/t", Engine.JVM),
        ("file:///lake/t", Engine.JVM),
        ("hdfs://name-node/t", Engine.JVM),
        ("viewfs://cluster/t", Engine.JVM),
        ("s3://bucket/t", Engine.ARROW),  # Spark's own settings name its class, which is not there
        ("gs://bucket/t", Engine.ARROW),
        ("abfss://c@account.dfs.core.windows.net/t", Engine.ARROW),
    ],
)
def test_without_connectors_hadoop_knows_its_own_filesystems(spark, uri, engine):
    assert engine_for(spark, [uri], {}) is engine


@SERVER_IS_UNKNOWN
def test_with_a_connector_the_jvm_takes_s3_by_each_of_its_names(spark, s3a):
    for uri in ("s3://bucket/t", "s3n://bucket/t", "s3a://bucket/t"):
        assert engine_for(spark, [uri], {}) is Engine.JVM
        assert engine_for(spark, [uri], {"key": "k"}) is Engine.ARROW


@SERVER_IS_UNKNOWN
def test_a_table_in_an_object_store_that_hadoop_knows_is_read_by_sparks_own_reader(spark, write_rows, table, s3a):
    write_rows("SELECT id, CONCAT('a b%', id % 2) AS p FROM range(6)", partition_by=("p",))
    snapshot = DeltaLog.for_table(table).snapshot()
    lying_there = replace(TableFiles.of(snapshot), table_uri=f"{s3a}/table")
    rows = read_files(spark, snapshot.files(columns=SCANNED_COLUMNS), lying_there)

    assert sorted(map(tuple, rows.collect())) == [(number, f"a b%{number % 2}") for number in range(6)]
    assert {name.partition("://")[0] for name in rows.inputFiles()} == {"s3a"}  # of files that Spark lists itself


def test_many_objects_are_left_to_python_workers_for_their_requests():
    assert suits_jvm([f"file:/t/{number}.parquet" for number in range(1_001)])
    assert suits_jvm([f"s3a://b/t/{number}.parquet" for number in range(1_000)])
    assert not suits_jvm([f"s3a://b/t/{number}.parquet" for number in range(1_001)])


@pytest.mark.parametrize("directory", ["t*", "t?", "t[a]", "t{b,c}", "t\\*"])
def test_a_path_that_looks_like_a_pattern_is_left_to_workers_over_spark_connect(directory):
    uris = [f"file:/{directory}/0.parquet", "file:/t/1.parquet"]
    assert (suits_jvm(uris, over_connect=True), suits_jvm(uris)) == (False, True)
    assert suits_jvm(uris[1:], over_connect=True)
