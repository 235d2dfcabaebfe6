"""Commits the files of Spark's writer: Hadoop's committer renames them; ours lets tasks write to the final place.

A rename in an object store is a copy, and Hadoop's committer makes two of each file, the second one in the driver. Committers
that avoid this come with hadoop-aws and spark-hadoop-cloud, which a session may not have, and only for S3. The one here is a
small Java class: Spark's own compiler (Janino) compiles it, and it is sent to executors as an added JAR.

Each task attempt writes to its own directory. An attempt that may commit leaves an empty marker object; at the end of the job,
the markers and the directories of all other attempts are deleted. Whatever an attempt writes even later, because its executor
only seemed lost or Spark stops a speculative attempt late, is in a directory that is not in ``committed_directories``, so the
commit does not reference it: the attempt deletes it, or a vacuum does.
"""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_delta.spark.io.engines import is_object_store
from airflow_delta.spark.jvm import Py4JJavaError, hadoop_configuration, hadoop_gateway, session_state

_CLASS = "airflow_delta.InPlaceCommitter"
_SOURCE = """
package airflow_delta;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter;

public class InPlaceCommitter extends FileOutputCommitter {
  public static final Map KEPT = new ConcurrentHashMap();

  private final Path output;
  private final Path committed;
  private final String attempt;

  public InPlaceCommitter(Path output, TaskAttemptContext context) throws IOException {
    super(output, context);
    this.output = output;
    this.committed = new Path(output, "committed");
    this.attempt = context.getTaskAttemptID().getTaskID().getId() + "-" + context.getTaskAttemptID().getId();
  }

  public Path getWorkPath() {
    return new Path(output, attempt);
  }

  public void setupJob(JobContext context) {}

  public void setupTask(TaskAttemptContext context) {}

  public boolean needsTaskCommit(TaskAttemptContext context) throws IOException {
    return files(context).exists(getWorkPath());
  }

  public void commitTask(TaskAttemptContext context) throws IOException {
    files(context).create(new Path(committed, attempt), true).close();
  }

  public void abortTask(TaskAttemptContext context) throws IOException {
    files(context).delete(getWorkPath(), true);
  }

  public void commitJob(JobContext context) throws IOException {
    FileSystem files = files(context);
    if (!files.exists(output)) {
      return;
    }
    Map last = new HashMap();
    if (files.exists(committed)) {
      FileStatus[] commits = files.listStatus(committed);
      for (int i = 0; i < commits.length; i++) {
        String name = commits[i].getPath().getName();
        String task = name.substring(0, name.indexOf("-"));
        FileStatus other = (FileStatus) last.get(task);
        if (other == null || other.getModificationTime() <= commits[i].getModificationTime()) {
          last.put(task, commits[i]);
        }
      }
    }
    List names = new ArrayList();
    FileStatus[] found = files.listStatus(output);
    for (int i = 0; i < found.length; i++) {
      Path path = found[i].getPath();
      String task = path.getName().split("-")[0];
      FileStatus kept = (FileStatus) last.get(task);
      if (kept == null || !kept.getPath().getName().equals(path.getName())) {
        files.delete(path, true);
      } else {
        names.add(path.getName());
      }
    }
    KEPT.put(output.getParent().getName() + "/" + output.getName(), names);
  }

  public void abortJob(JobContext context, JobStatus.State state) {}

  private FileSystem files(JobContext context) throws IOException {
    return output.getFileSystem(context.getConfiguration());
  }
}
"""

_RENAMING = {
    "mapreduce.fileoutputcommitter.algorithm.version": "1",  # version 2 exposes files of tasks that fail later
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_COMMITTER = "spark.sql.parquet.output.committer.class"
_PROTOCOL = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
_MUTABLE = "org.apache.spark.util.MutableURLClassLoader"
_loading = threading.Lock()


def committer_options(spark: SparkSession, uri: str) -> Mapping[str, str]:
    """Options for writing Parquet files to a directory.

    A committer configured on the cluster, such as that of EMR or S3A, is used instead of ours.
    """
    if not is_object_store(uri) or _has_own(spark) or not add_class(spark, _CLASS, _SOURCE):
        return _RENAMING
    return {**_RENAMING, _COMMITTER: _CLASS}


def committed_directories(spark: SparkSession, options: Mapping[str, str], uri: str) -> frozenset[str] | None:
    """After a write, the directories of the attempts that committed; None if all files are those of such attempts.

    Args:
        spark: The session that wrote.
        options: The ``committer_options`` of the write.
        uri: Where it wrote. The last two parts of the path must be unique.
    """
    if options.get(_COMMITTER) != _CLASS:
        return None
    kept = _loader(spark).loadClass(_CLASS).getField("KEPT").get(None)
    return frozenset(kept.remove("/".join(uri.split("/")[-2:])) or ())


def _has_own(spark: SparkSession) -> bool:
    """Whether another committer is configured for Parquet, or a commit protocol that may ignore committers."""
    protocol = str(session_state(spark).conf().fileCommitProtocolClass())
    return protocol != _PROTOCOL or hadoop_configuration(spark).get(_COMMITTER) is not None


def add_class(spark: SparkSession, name: str, source: str) -> bool:
    """Compile a class for a classic session and its executors, once; False if its class loader does not allow adding one."""
    jvm, _ = hadoop_gateway(spark, "committers")
    context = spark.sparkContext
    loader = _loader(spark)
    with _loading:
        try:
            loader.loadClass(name)
        except Py4JJavaError:
            if not jvm.java.lang.Class.forName(_MUTABLE).isInstance(loader):
                return False
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(loader)
            compiler.cook(source)
            digest = hashlib.sha256(source.encode()).hexdigest()[:16]
            jar = Path(context._temp_dir) / f"{name}-{digest}.jar"  # noqa: SLF001 - it ends with the application
            with zipfile.ZipFile(jar, "w") as archive:
                for compiled, content in compiler.getBytecodes().items():
                    archive.writestr(f"{compiled.replace('.', '/')}.class", content)
            loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
            context._jsc.addJar(str(jar))  # noqa: SLF001 - of executors that come later, too
    return True


def _loader(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.hadoopConfiguration().getClassLoader()  # noqa: SLF001 - PySpark offers no other way
