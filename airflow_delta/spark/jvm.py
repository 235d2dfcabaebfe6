"""Access to the JVM of a session: in this process with classic Spark, on a server with Spark Connect.

Everything that only the JVM can answer is here, so that a Spark Connect session gets another answer or a typed error, and no
other module imports py4j, which ``pyspark-client`` does not include.
"""

from __future__ import annotations

from threading import Lock, Thread
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from airflow_delta.spark.errors import SparkConnectUnsupportedError
from airflow_delta.spark.schema_conversion import quoted

try:
    from py4j.protocol import Py4JError, Py4JJavaError
except ModuleNotFoundError:  # without py4j, these errors are never raised

    class Py4JError(Exception):  # type: ignore[no-redef]
        """Placeholder of py4j's class: a call to the JVM failed."""

    class Py4JJavaError(Py4JError):  # type: ignore[no-redef,misc]
        """Placeholder of py4j's class: Java threw an exception."""


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
_GRACE = 3.0
"""Seconds that a server has to free rows: PySpark asks one that is lost for ten minutes."""
_copying = Lock()


def is_connect(spark: SparkSession) -> bool:
    """Whether this is a Spark Connect session, whose JVM is on a server."""
    return type(spark).__module__.startswith(_CONNECT)


def is_stopped(spark: SparkSession) -> bool:
    """Whether the session was stopped, so that it can compute nothing."""
    if is_connect(spark):
        return bool(spark.is_stopped)
    return spark.sparkContext._jsc is None  # noqa: SLF001 - PySpark offers no other way


def active_jvm() -> Any:
    """The JVM of the process's active session; None with Spark Connect. Columns know no session, so PySpark does the same.

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
    """The JVM, with its Hadoop classes, and the py4j gateway.

    Args:
        spark: The session.
        uri: What will be accessed through Hadoop, for the error.

    Raises:
        SparkConnectUnsupportedError: It is a Spark Connect session.
    """
    if is_connect(spark):
        instead = "keep the table in an object store or on a file system that this process mounts, or use a classic session"
        raise SparkConnectUnsupportedError(feature=f"reaching {uri} through Hadoop", instead=instead)
    context = spark.sparkContext
    return context._jvm, context._gateway  # noqa: SLF001 - the way to Hadoop


def hadoop_configuration(spark: SparkSession) -> Any:
    """Hadoop's configuration, including the settings of a classic session."""
    return session_state(spark).newHadoopConf()


def filesystem_class(spark: SparkSession, scheme: str) -> str | None:
    """Name of Hadoop's class for a scheme's filesystem; None if it has none, or if the class cannot be loaded.

    Raises:
        SparkConnectUnsupportedError: It is a Spark Connect session.
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
    """A new session with the settings, views, functions and cached data of a classic session."""
    from pyspark import RDD  # noqa: PLC0415 - pyspark-client has none

    with _copying:
        to_df = RDD.toDF  # creating a session rebinds toDF to it, which would move the user's later rows to this session
        try:
            return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001 - as newSession
        finally:
            RDD.toDF = to_df


def drop_temporary_view(spark: SparkSession, name: str) -> None:
    """Drop a temporary view of the session.

    Unlike ``spark.catalog.dropTempView``, keeps cached data that equals the view, such as rows that the user has cached.
    """
    if is_connect(spark):
        spark.sql(f"DROP VIEW IF EXISTS {quoted(name)}")
    else:
        session_state(spark).catalog().dropTempView(name)


def is_movable(rows: DataFrame) -> bool:
    """Whether rows can be computed in another session; not if they have an observation of the user's, which would never end."""
    return not is_connect(rows.sparkSession) and "CollectMetrics" not in str(analyzed_plan(rows).treeString())


def in_session(rows: DataFrame, spark: SparkSession) -> DataFrame:
    """The rows, computed with the settings of another classic session of the same application."""
    if rows.sparkSession is spark:
        return rows
    jvm, _ = hadoop_gateway(spark, "rows")
    dataset = jvm.org.apache.spark.sql.classic.Dataset
    return DataFrame(dataset.ofRows(spark._jsparkSession, analyzed_plan(rows)), spark)  # noqa: SLF001 - PySpark offers no other way


def analyzed_plan(rows: DataFrame) -> Any:
    """The analyzed plan of rows of a classic session."""
    return rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark offers no other way


def analyzed(rows: DataFrame) -> DataFrame:
    """The rows, after Spark has analyzed them; a classic session has done so already, Spark Connect does so on request.

    Raises:
        AnalysisException: The plan is invalid. Likewise ``ParseException``.
    """
    if is_connect(rows.sparkSession):
        rows.schema  # noqa: B018 - the server answers or raises
    return rows


def checkpointed(rows: DataFrame) -> DataFrame:
    """Rows that Spark computes only once, and keeps as long as no executor is lost; with Spark Connect, in this session.

    They are computed on first use, or immediately if they have an observation of the user's, which ends with the first query.
    """
    spark = rows.sparkSession
    kept = rows.localCheckpoint(eager=not is_connect(spark) and not is_movable(rows))
    if not is_connect(spark) or kept.sparkSession is spark:
        return kept
    return spark._create_remote_dataframe(kept._plan._relation_id)  # noqa: SLF001 - PySpark offers no other way


def release_checkpoint(rows: DataFrame) -> None:
    """Free what ``localCheckpoint`` keeps of these rows, which cannot be used afterwards."""
    if is_connect(rows.sparkSession):
        freeing = Thread(target=_forget, args=(rows._plan,), name="release-checkpoint", daemon=True)  # noqa: SLF001
        freeing.start()
        freeing.join(_GRACE)
    else:
        kept = analyzed_plan(rows).rdd()
        kept.sparkContext().unpersistRDD(kept.id(), False)  # like unpersist(), which would warn if the rows are gone


def _forget(relation: Any) -> None:
    """Send now the request that PySpark sends when Python forgets a relation, and would wait for."""
    relation.__del__()
    relation._relation_id = None  # noqa: SLF001 - nothing is left to be sent


def repeats(rows: DataFrame) -> bool:
    """Whether computing these rows again from the same relations gives the same rows, in any order.

    True only if Spark knows all expressions to be deterministic and there are no subqueries, which may read different data.
    False with Spark Connect, which does not show this.
    """
    if is_connect(rows.sparkSession):
        return False
    plan = analyzed_plan(rows)
    return bool(plan.deterministic()) and not plan.subqueriesAll().nonEmpty()
