"""How the files of Spark's writer get to their place: Hadoop's committer renames them, ours writes them there.

A rename in an object store is a copy, and Hadoop's committer makes two of each file, the second in the driver. Committers
without it come with hadoop-aws and spark-hadoop-cloud, which a session need not have, and for S3 alone. This one is a class of
some lines: Spark's own compiler (Janino) makes it, and it travels to the executors as an added JAR.

Each attempt of a task writes into a directory of its own. One that may commit leaves an empty object that says so; when the job
ends, these are deleted, and so are the directories of other attempts. What an attempt writes even later, because its executor
only seemed lost, or because Spark stops the slower of two attempts only now, lies beside what the commit names, in a directory
that is not among the ``committed_directories``: the attempt deletes it, or a vacuum finds it.
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
    "mapreduce.fileoutputcommitter.algorithm.version": "1",  # 2 shows files of tasks that fail later
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_COMMITTER = "spark.sql.parquet.output.committer.class"
_PROTOCOL = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
_MUTABLE = "org.apache.spark.util.MutableURLClassLoader"
_loading = threading.Lock()


def committer_options(spark: SparkSession, uri: str) -> Mapping[str, str]:
    """Options of a write of Parquet files into a directory.

    Where the cluster has chosen a committer itself, as EMR does and who sets up S3A's, it is that one which commits.
    """
    if not is_object_store(uri) or _has_own(spark) or not add_class(spark, _CLASS, _SOURCE):
        return _RENAMING
    return {**_RENAMING, _COMMITTER: _CLASS}


def committed_directories(spark: SparkSession, options: Mapping[str, str], uri: str) -> frozenset[str] | None:
    """The directories of the attempts that committed, after a write; None where all files are those of such attempts.

    Args:
        spark: The session that wrote.
        options: The ``committer_options`` of the write.
        uri: Where it wrote. The last two names of the path are nowhere else the same.
    """
    if options.get(_COMMITTER) != _CLASS:
        return None
    kept = _loader(spark).loadClass(_CLASS).getField("KEPT").get(None)
    return frozenset(kept.remove("/".join(uri.split("/")[-2:])) or ())


def _has_own(spark: SparkSession) -> bool:
    """Whether another committer is set for Parquet, or a protocol that may know none."""
    protocol = str(session_state(spark).conf().fileCommitProtocolClass())
    return protocol != _PROTOCOL or hadoop_configuration(spark).get(_COMMITTER) is not None


def add_class(spark: SparkSession, name: str, source: str) -> bool:
    """Compile a class for a classic session and its executors, once; False where its class loader takes none."""
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
