"""Files of Spark's writer in an object store: written where they stay, and only those of tasks that committed.

``ViewFileSystemOverloadScheme`` stands for a store of scheme ``s3a``, as in ``test_engines``; here it refuses every rename.
"""

import uuid
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.spark.io import committers
from airflow_delta.spark.io.committers import add_class, committer_options
from airflow_delta.spark.io.staging import StagingArea
from tests.spark.session_settings import session_settings

pytestmark = pytest.mark.classic(reason="over Spark Connect, workers write into object stores")

REFUSING = "airflow_delta_tests.RefusesRenames"
SOURCE = """
package airflow_delta_tests;
public class RefusesRenames extends org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme {
  public RefusesRenames() throws java.io.IOException {}
  public boolean rename(org.apache.hadoop.fs.Path from, org.apache.hadoop.fs.Path to) throws java.io.IOException {
    throw new java.io.IOException("renamed " + from);
  }
}
"""
OWN = "spark.sql.parquet.output.committer.class"
PARQUETS = "org.apache.parquet.hadoop.ParquetOutputCommitter"
PLAIN_PROTOCOL = "org.apache.spark.internal.io.HadoopMapReduceCommitProtocol"


@pytest.fixture
def s3a(spark, tmp_path):
    """A URI under which the session's Hadoop finds ``tmp_path``, and renames nothing."""
    assert add_class(spark, REFUSING, SOURCE)
    bucket = f"bucket-{uuid.uuid4().hex}"
    settings = {
        "fs.s3a.impl": REFUSING,
        "fs.viewfs.overload.scheme.target.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
        f"fs.viewfs.mounttable.{bucket}.link./lake": f"file://{tmp_path}",
    }
    with session_settings(spark, settings):
        yield f"s3a://{bucket}/lake"


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file() and path.name[0] != ".")


def test_no_file_is_renamed_in_an_object_store(spark, s3a, tmp_path):
    rows = spark.range(0, 100, 1, 3).withColumn("part", F.col("id") % 2)
    with pytest.raises(Exception, match="renamed"):
        rows.write.options(**committer_options(spark, "file:/lake")).parquet(f"{s3a}/renamed")
    rows.write.options(**committer_options(spark, s3a)).partitionBy("part").parquet(f"{s3a}/rows")

    assert len(files(tmp_path / "rows")) == 6
    assert all(name.endswith(".parquet") for name in files(tmp_path / "rows"))  # no sign of a commit is left
    assert len({name.split("/")[0] for name in files(tmp_path / "rows")}) == 3  # each task has a directory
    found = spark.read.option("recursiveFileLookup", "true").parquet(
        *(f"file:{tmp_path}/rows/{f}" for f in files(tmp_path / "rows"))
    )
    assert sorted(row.id for row in found.collect()) == [*range(100)]


def test_a_write_without_rows_leaves_no_directory_of_a_task_behind_that_wrote_none(spark, s3a, tmp_path):
    spark.range(0, 10, 1, 4).where("id > 8").write.options(**committer_options(spark, s3a)).parquet(f"{s3a}/rows")
    assert {name.split("/")[0].split("-")[0] for name in files(tmp_path / "rows")} == {
        "0",
        "3",
    }  # the first one, for its schema


class Job:
    """A job of one stage, whose attempts commit when a test says so."""

    def __init__(self, spark, folder):
        self.jvm, self.folder = spark._jvm, folder
        add_class(spark, committers._CLASS, committers._SOURCE)
        loader = spark._jsc.hadoopConfiguration().getClassLoader()
        self.kind = loader.loadClass(committers._CLASS)
        self.hadoop = self.jvm.org.apache.hadoop

    def attempt(self, task, number):
        kinds = self.hadoop.mapreduce
        attempt = kinds.TaskAttemptID("20260101", 7, kinds.TaskType.MAP, task, number)
        context = kinds.task.TaskAttemptContextImpl(self.hadoop.conf.Configuration(), attempt)
        (constructor,) = self.kind.getConstructors()
        arguments = self.jvm.java.util.ArrayList()
        arguments.add(self.hadoop.fs.Path(str(self.folder)))
        arguments.add(context)
        return constructor.newInstance(arguments.toArray()), context

    def write(self, task, number):
        committer, context = self.attempt(task, number)
        committer.setupTask(context)
        place = Path(committer.getWorkPath().toUri().getPath()) / f"part-{task}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(str(number))
        return committer, context


def test_of_each_task_the_files_of_the_attempt_that_committed_last_remain(spark, tmp_path):
    job = Job(spark, tmp_path / "rows")
    driver, of_job = job.attempt(0, 0)
    driver.setupJob(of_job)
    lost, of_lost = job.write(0, 1)  # its executor is gone
    late, of_late = job.write(1, 2)
    early, of_early = job.write(1, 9)  # a speculative copy, whose executor is lost after it has committed
    failed, of_failed = job.write(2, 4)
    early.commitTask(of_early)
    failed.abortTask(of_failed)
    late.commitTask(of_late)
    again, of_again = job.write(2, 5)
    again.commitTask(of_again)
    assert not Path(tmp_path / "rows" / "2-4").exists()
    driver.commitJob(of_job)

    assert files(tmp_path / "rows") == ["1-2/part-1.parquet", "2-5/part-2.parquet"]
    assert not lost.needsTaskCommit(of_lost)  # nothing of it is there


def test_a_job_whose_tasks_wrote_nothing_commits(spark, tmp_path):
    driver, of_job = Job(spark, tmp_path / "rows").attempt(0, 0)
    driver.commitJob(of_job)
    assert not driver.needsTaskCommit(of_job)
    assert files(tmp_path) == []


def test_committers_that_a_cluster_has_chosen_are_left_alone(spark):
    assert committer_options(spark, "s3a://bucket/t")[OWN] == committers._CLASS
    assert OWN not in committer_options(spark, "file:/t")
    assert OWN not in committer_options(spark, "hdfs://name-node/t")
    for settings in ({OWN: PARQUETS}, {"spark.sql.sources.commitProtocolClass": PLAIN_PROTOCOL}):
        with session_settings(spark, settings):
            assert OWN not in committer_options(spark, "s3a://bucket/t")


def test_a_table_holds_the_rows_that_were_written_at_their_place(write_rows, reference_rows, table, monkeypatch):
    monkeypatch.setattr(committers, "is_object_store", lambda _: True)
    write_rows("SELECT id, id % 3 AS p FROM range(0, 90, 1, 4)", partition_by=("p",))
    write_rows("SELECT id, 7 AS p FROM range(90, 100)")

    assert reference_rows() == [(number, number % 3 if number < 90 else 7) for number in range(100)]
    live = {Path(path).relative_to(table) for path in map(Path, DeltaTable(table).file_uris())}
    assert {str(path) for path in live} == {name for name in files(table) if not name.startswith("_delta_log/")}
    assert {path.parts[2].count("-") for path in live} == {1}  # write-…/rows/<task>-<attempt>/…


def test_what_an_attempt_writes_after_the_job_has_ended_is_not_part_of_the_commit(
    write_rows, reference_rows, table, monkeypatch
):
    """As the slower of two attempts does: Spark stops it when the job ends, and its file is closed before it is deleted."""
    list_files, late = StagingArea.list_files, []

    def list_late(staging, folder):
        place = Path(staging.root) / staging.name / folder
        ours = next(place.rglob("*.parquet"))
        copy = place / "0-999" / ours.relative_to(place / ours.relative_to(place).parts[0])
        copy.parent.mkdir(parents=True)
        late.append(copy.write_bytes(ours.read_bytes()))
        return list_files(staging, folder)

    monkeypatch.setattr(committers, "is_object_store", lambda _: True)
    monkeypatch.setattr(StagingArea, "list_files", list_late)
    write_rows("SELECT id, id % 3 AS p FROM range(0, 90, 1, 4)", partition_by=("p",))

    assert len(late) == 1
    assert reference_rows() == [(number, number % 3) for number in range(90)]
