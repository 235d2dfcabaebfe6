"""What a Spark session is set to, and what SQL sees in it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.spark.errors import SparkConnectUnsupportedError
from airflow_delta.spark.jvm import copied_session, drop_temporary_view, is_connect
from airflow_delta.spark.schema_conversion import quoted

_SPLITS = re.compile(r"splits=(\d+)")
_LOCAL = re.compile(r"local(\[.*\])?")
_MEMORY = re.compile(r"(\d+)([kmgt]?)b?")
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_RESERVED_BYTES = 300 << 20
"""Of each heap, by Spark for itself."""
_MAX_RESULT_BYTES = 1 << 30
"""``spark.driver.maxResultSize`` by default, and where it sets no limit."""
_naming = RLock()


def explained(rows: DataFrame) -> str:
    """The plans of rows of Spark Connect, from the parsed to the physical one, as Spark shows them; no job runs."""
    return str(rows._explain_string(extended=True))  # noqa: SLF001 - explain() prints it


def session_with(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session like this one, in which these settings hold: itself where they do so already, else a copy of its own.

    Only for settings that Spark does not take as an option of the reader or writer. Settings of a session are never changed:
    other threads, and the user's own plans, would see it.

    Raises:
        SparkConnectUnsupportedError: They do not hold in a session of Spark Connect, whose rows stay in their session.
    """
    if holds(spark, settings):
        return spark
    if is_connect(spark):
        instead = ", ".join(f"{key} = {value}" for key, value in settings.items())
        raise SparkConnectUnsupportedError(feature="what other settings of the session forbid", instead=f"set {instead}")
    copy = copied_session(spark)
    for key, value in settings.items():
        copy.conf.set(key, value)
    return copy


def holds(spark: SparkSession, settings: Mapping[str, str]) -> bool:
    """Whether these settings hold in a session, be it by Spark's default."""
    try:
        return all(spark.conf.get(key) == value for key, value in settings.items())
    except PySparkException:  # this version of Spark does not know one of them
        return False


@contextmanager
def temporary_views(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Make these rows visible to SQL under these names; views of the session that they hide come back afterwards.

    Every thread of the session sees them. A DataFrame that a classic session makes from SQL inside the block keeps its meaning,
    as Spark resolves names when it is made; see ``query`` for those of Spark Connect, where it does so each time that the
    DataFrame is used.
    """
    hidden = {name: f"hidden_{uuid.uuid4().hex}" for name in frames if _is_temporary_view(spark, name)}
    for name, kept in hidden.items():
        spark.table(quoted(name)).createTempView(kept)
        drop_temporary_view(spark, name)  # replacing it would take from the cache what is cached by its name
    try:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(quoted(name))
        yield
    finally:
        for name in frames:
            drop_temporary_view(spark, name)
        for name, kept in hidden.items():
            spark.table(kept).createOrReplaceTempView(quoted(name))
            drop_temporary_view(spark, kept)


@contextmanager
def query_views(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """As ``temporary_views``, for names that users choose: a statement in another thread may have other rows of the same name.

    One thread at a time is in such a block, so queries are analyzed in it, and nothing runs.
    """
    with _naming, temporary_views(spark, frames):
        yield


def query(
    spark: SparkSession, text: str, views: Mapping[str, DataFrame], args: Mapping[str, Any] | Sequence[Any] | None = None
) -> DataFrame:
    """The rows of an SQL query that sees these rows under these names; ``args`` as of ``spark.sql``.

    Raises:
        AnalysisException: It means nothing. Likewise ``ParseException``.
    """
    if not views:
        return spark.sql(text, args=args)
    if is_connect(spark):
        # The query is analyzed whenever the rows are used, so it carries its views with it; braces would name arguments. The
        # server drops them as its catalog does (see drop_temporary_view): they must differ from what the user has cached.
        slots = [f"view_{position}" for position in range(len(views))]
        named = ", ".join(f"{quoted(name)} AS (TABLE {{{slot}}})" for name, slot in zip(views, slots, strict=True))
        body = _without_end(text).replace("{", "{{").replace("}", "}}")
        sql = f"WITH {named} SELECT * FROM (\n{body}\n)"  # noqa: S608 - it is the user's own SQL
        frames = (rows.where(F.lit(True)) for rows in views.values())
        return spark.sql(sql, args=args, **dict(zip(slots, frames, strict=True)))
    with query_views(spark, views):
        return spark.sql(text, args=args)


def _without_end(text: str) -> str:
    """The text of a query up to the semicolons that end it, behind which only comments may stand."""
    # Imported late: Python workers load this module, and need no parser of SQL.
    from sqlglot import TokenType  # noqa: PLC0415
    from sqlglot.errors import SqlglotError  # noqa: PLC0415

    from airflow_delta.core.predicate.syntax import tokens_of  # noqa: PLC0415

    try:
        tokens = tokens_of(text)
    except SqlglotError:
        return text
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        text = text[: tokens.pop().start]
    return text


def _is_temporary_view(spark: SparkSession, name: str) -> bool:
    return spark.catalog.tableExists(quoted(name)) and spark.catalog.getTable(quoted(name)).isTemporary


def cores(spark: SparkSession) -> int:
    """How many tasks can run at once, at the moment: under dynamic allocation it says nothing about the next one."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    found = _SPLITS.search(explained(spark.range(1)))
    return int(found[1]) if found else 1


def has_executors(spark: SparkSession) -> bool:
    """Whether tasks run in other processes than the driver's, which may be lost while it goes on.

    Where the session does not show its master, they are taken to do so.
    """
    return _LOCAL.fullmatch(str(spark.conf.get("spark.master", ""))) is None


def task_memory(spark: SparkSession) -> int:
    """Bytes of the heap that a task can always have for its joins and sorts, as far as the settings tell; 0 where they do not.

    Spark: "Memory Management Overview" of its tuning guide. Half of what executions and cached rows share is the cached rows'.
    """
    settings = spark.conf
    is_local = not has_executors(spark)
    heap = _bytes(settings.get("spark.driver.memory" if is_local else "spark.executor.memory", "1g"))
    if str(settings.get("spark.memory.offHeap.enabled", "false")).lower() == "true":
        return 0
    slots = cores(spark) if is_local else int(settings.get("spark.executor.cores", None) or cores(spark))
    shared = float(settings.get("spark.memory.fraction", "0.6") or 0)
    kept = float(settings.get("spark.memory.storageFraction", "0.5") or 0)
    return max(0, int((heap - _RESERVED_BYTES) * shared * (1 - kept) / max(1, slots)))


def result_bytes(spark: SparkSession) -> int:
    """How many bytes one query may bring to this process: half of what the session allows, as rows are counted before."""
    allowed = _bytes(spark.conf.get("spark.driver.maxResultSize", None), unit="") or _MAX_RESULT_BYTES
    return allowed // 2


def _bytes(size: str | None, unit: str = "m") -> int:
    """A size as Spark writes it, in this unit where it names none; 0 for anything else."""
    found = _MEMORY.fullmatch(str(size).strip().lower())
    return int(found[1]) << _SHIFTS[found[2] or unit] if found else 0


def time_zone(spark: SparkSession) -> str:
    """The zone in which the session reads times that name none."""
    return str(spark.conf.get("spark.sql.session.timeZone"))


def is_case_sensitive(spark: SparkSession) -> bool:
    """Whether names that differ in case are two to the session; Delta's tables never have both."""
    return str(spark.conf.get("spark.sql.caseSensitive")).lower() == "true"


def reads_files_by_relation(spark: SparkSession) -> bool:
    """Whether Spark's Parquet reader shows which file a row is of: by default; that of its second kind does not."""
    return "parquet" in str(spark.conf.get("spark.sql.sources.useV1SourceList")).lower().split(",")


def pads_char(spark: SparkSession) -> bool:
    """Whether the session's readers pad columns of type CHAR; by default they do. Spark: ``ApplyCharTypePadding``."""
    reads, as_string = spark.conf.get("spark.sql.readSideCharPadding"), spark.conf.get("spark.sql.legacy.charVarcharAsString")
    return str(reads).lower() == "true" and str(as_string).lower() != "true"
