"""The JVM behind a session: in this process's reach with classic Spark, on a server with Spark Connect.

What only the JVM itself answers is asked here, so that a session of Spark Connect gets another answer or a typed error, and
nothing else imports py4j: ``pyspark-client`` comes without it.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from airflow_delta.spark.errors import SparkConnectUnsupportedError
from airflow_delta.spark.schema_conversion import quoted

try:
    from py4j.protocol import Py4JError, Py4JJavaError
except ModuleNotFoundError:  # nothing raises these then

    class Py4JError(Exception):  # type: ignore[no-redef]
        """As of py4j: a call of the JVM failed."""

    class Py4JJavaError(Py4JError):  # type: ignore[no-redef,misc]
        """As of py4j: Java threw."""


__all__ = [
    "Py4JError",
    "Py4JJavaError",
    "active_jvm",
    "analyzed",
    "analyzed_plan",
    "checkpointed",
    "copied_session",
    "drop_temporary_view",
    "filesystem_class",
    "hadoop_configuration",
    "hadoop_gateway",
    "in_session",
    "is_connect",
    "is_movable",
    "release_checkpoint",
    "repeats",
    "session_state",
]

_CONNECT = "pyspark.sql.connect."
_copying = Lock()


def is_connect(spark: SparkSession) -> bool:
    """Whether this is a session of Spark Connect, whose JVM is a server's."""
    return type(spark).__module__.startswith(_CONNECT)


def is_stopped(spark: SparkSession) -> bool:
    """Whether the session was stopped, so that nothing can be computed in it."""
    if is_connect(spark):
        return bool(spark.is_stopped)
    return spark.sparkContext._jsc is None  # noqa: SLF001 - PySpark offers no other way


def active_jvm() -> Any:
    """The JVM of the process's session; None with Spark Connect. Columns know no session: PySpark decides likewise.

    Raises:
        RuntimeError: No session is active.
    """
    if is_remote():
        return None
    from pyspark import SparkContext  # noqa: PLC0415 - pyspark-client has none

    context = SparkContext._active_spark_context  # noqa: SLF001 - as functions.expr finds it
    if context is None:
        raise RuntimeError("no Spark session is active")
    return context._jvm  # noqa: SLF001 - PySpark offers no other way


def hadoop_gateway(spark: SparkSession, uri: str) -> tuple[Any, Any]:
    """The JVM with its Hadoop, and its gateway.

    Args:
        spark: The session.
        uri: What is reached through Hadoop, for the error.

    Raises:
        SparkConnectUnsupportedError: It is a session of Spark Connect.
    """
    if is_connect(spark):
        instead = "keep the table in an object store or on a file system that this process mounts, or use a classic session"
        raise SparkConnectUnsupportedError(feature=f"reaching {uri} through Hadoop", instead=instead)
    context = spark.sparkContext
    return context._jvm, context._gateway  # noqa: SLF001 - the way to Hadoop


def hadoop_configuration(spark: SparkSession) -> Any:
    """Hadoop's configuration with the settings of a classic session in it."""
    return session_state(spark).newHadoopConf()


def filesystem_class(spark: SparkSession, scheme: str) -> str | None:
    """Name of the class that Hadoop reaches a filesystem by; None where it has none, or the name alone.

    Raises:
        SparkConnectUnsupportedError: It is a session of Spark Connect.
    """
    jvm, _ = hadoop_gateway(spark, f"{scheme}://")
    try:
        found = jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, hadoop_configuration(spark))
    except Py4JJavaError:
        return None
    return str(found.getName())


def session_state(spark: SparkSession) -> Any:
    """The ``SessionState`` of a classic session."""
    return spark._jsparkSession.sessionState()  # noqa: SLF001 - PySpark offers no other way


def copied_session(spark: SparkSession) -> SparkSession:
    """A session of its own with the settings, views and functions of a classic one, and with what it has cached."""
    from pyspark import RDD  # noqa: PLC0415 - pyspark-client has none

    with _copying:
        to_df = RDD.toDF  # each new session makes it its own, so that rows of the user's would be in this one
        try:
            return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001 - as newSession
        finally:
            RDD.toDF = to_df


def drop_temporary_view(spark: SparkSession, name: str) -> None:
    """Drop a temporary view of the session.

    ``spark.catalog.dropTempView`` also takes from the cache what is equal to the view: rows that the user has cached.
    """
    if is_connect(spark):
        spark.sql(f"DROP VIEW IF EXISTS {quoted(name)}")
    else:
        session_state(spark).catalog().dropTempView(name)


def is_movable(rows: DataFrame) -> bool:
    """Whether rows can be computed in another session: an observation of the user's would wait for its own forever."""
    return not is_connect(rows.sparkSession) and "CollectMetrics" not in str(analyzed_plan(rows).treeString())


def in_session(rows: DataFrame, spark: SparkSession) -> DataFrame:
    """The rows, computed under the settings of another classic session of the same application."""
    if rows.sparkSession is spark:
        return rows
    jvm, _ = hadoop_gateway(spark, "rows")
    dataset = jvm.org.apache.spark.sql.classic.Dataset
    return DataFrame(dataset.ofRows(spark._jsparkSession, analyzed_plan(rows)), spark)  # noqa: SLF001 - PySpark offers no other way


def analyzed_plan(rows: DataFrame) -> Any:
    """The analyzed plan of a classic session's rows."""
    return rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark offers no other way


def analyzed(rows: DataFrame) -> DataFrame:
    """The rows, once Spark has analyzed them: a classic session did so when they were made, Spark Connect does it when asked.

    Raises:
        AnalysisException: They mean nothing. Likewise ``ParseException``.
    """
    if is_connect(rows.sparkSession):
        rows.schema  # noqa: B018 - the server answers or raises
    return rows


def checkpointed(rows: DataFrame) -> DataFrame:
    """Rows that Spark computes once, and keeps while no executor is lost; over Spark Connect their session is this one.

    They are computed when they are used first, but with an observation of the user's at once: it ends with the first query.
    """
    spark = rows.sparkSession
    kept = rows.localCheckpoint(eager=not is_connect(spark) and not is_movable(rows))
    if not is_connect(spark) or kept.sparkSession is spark:
        return kept
    return spark._create_remote_dataframe(kept._plan._relation_id)  # noqa: SLF001 - PySpark offers no other way


def release_checkpoint(rows: DataFrame) -> None:
    """Free what ``localCheckpoint`` keeps of these rows; Spark Connect does so when its client forgets them."""
    if not is_connect(rows.sparkSession):
        kept = analyzed_plan(rows).rdd()
        kept.sparkContext().unpersistRDD(kept.id(), False)  # as unpersist(), which warns of rows that are gone


def repeats(rows: DataFrame) -> bool:
    """Whether these rows come out the same, in whatever order, when they are computed again of the same relations.

    Spark must know all of their expressions to be deterministic; subqueries may read something else then. False over Spark
    Connect, which does not show it.
    """
    if is_connect(rows.sparkSession):
        return False
    plan = analyzed_plan(rows)
    return bool(plan.deterministic()) and not plan.subqueriesAll().nonEmpty()
