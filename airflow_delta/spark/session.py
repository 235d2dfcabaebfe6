"""Settings and resources of a Spark session, and temporary views in it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

from pyspark.errors import SparkNoSuchElementException
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
"""Bytes of each heap that Spark reserves for itself."""
_MAX_RESULT_BYTES = 1 << 30
"""Default of ``spark.driver.maxResultSize``, also used if it is unlimited."""
_naming = RLock()


def explained(rows: DataFrame) -> str:
    """The plans of rows of Spark Connect, from parsed to physical, as Spark prints them; runs no job."""
    return str(rows._explain_string(extended=True))  # noqa: SLF001 - explain() prints it


def session_with(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session with these settings: the given one if it has them, else a copy of it.

    Only for settings that are not options of Spark's reader or writer. Settings of an existing session are never changed, as
    other threads, and the user's own plans, would be affected.

    Raises:
        SparkConnectUnsupportedError: A Spark Connect session lacks the settings; its rows cannot be moved to another session.
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
    """Whether a session has these settings, possibly as Spark's defaults."""
    try:
        return all(spark.conf.get(key) == value for key, value in settings.items())
    except SparkNoSuchElementException:  # this version of Spark does not know one of the settings
        return False


@contextmanager
def temporary_views(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Register these rows as temporary views under these names; views of the session that they hide are restored afterwards.

    Every thread of the session sees them. A DataFrame that a classic session makes from SQL inside the block stays valid,
    because Spark resolves names when it is made; for Spark Connect, which resolves them on each use, see ``query``.
    """
    hidden = {name: f"hidden_{uuid.uuid4().hex}" for name in frames if _is_temporary_view(spark, name)}
    for name, kept in hidden.items():
        spark.table(quoted(name)).createTempView(kept)
        drop_temporary_view(spark, name)  # replacing it would drop cached data that refers to it by name
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
    """As ``temporary_views``, for names that users choose: statements in other threads may use the same names for other rows.

    Only one thread at a time is inside such a block, so queries are only analyzed there, and nothing is executed.
    """
    with _naming, temporary_views(spark, frames):
        yield


def query(
    spark: SparkSession, text: str, views: Mapping[str, DataFrame], args: Mapping[str, Any] | Sequence[Any] | None = None
) -> DataFrame:
    """The rows of an SQL query over these rows, by view name; ``args`` as of ``spark.sql``.

    Raises:
        AnalysisException: The query is invalid. Likewise ``ParseException``.
    """
    if not views:
        return spark.sql(text, args=args)
    if is_connect(spark):
        # Spark Connect analyzes a query on each use, so it carries its views along. Braces would be taken for arguments. The
        # server drops views through its catalog (see drop_temporary_view), so they must differ from cached data of the user.
        slots = [f"view_{position}" for position in range(len(views))]
        named = ", ".join(f"{quoted(name)} AS (TABLE {{{slot}}})" for name, slot in zip(views, slots, strict=True))
        body = _without_end(text).replace("{", "{{").replace("}", "}}")
        sql = f"WITH {named} SELECT * FROM (\n{body}\n)"  # noqa: S608 - it is the user's own SQL
        frames = (rows.where(F.lit(True)) for rows in views.values())
        return spark.sql(sql, args=args, **dict(zip(slots, frames, strict=True)))
    with query_views(spark, views):
        return spark.sql(text, args=args)


def _without_end(text: str) -> str:
    """The text of a query without trailing semicolons, after which only comments may follow."""
    # Imported late: Python workers load this module, and do not need the SQL parser.
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
    """How many tasks can run at once at present; with dynamic allocation this may change at any time."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    found = _SPLITS.search(explained(spark.range(1)))
    return int(found[1]) if found else 1


def has_executors(spark: SparkSession) -> bool:
    """Whether tasks run in processes other than the driver's, which may be lost while the driver runs on.

    Assumed to be so if the session does not show its master.
    """
    return _LOCAL.fullmatch(str(spark.conf.get("spark.master", ""))) is None


def task_memory(spark: SparkSession) -> int:
    """Heap bytes that a task can always use for joins and sorts, as far as the settings show; 0 if unknown.

    Spark: "Memory Management Overview" of its tuning guide. Half of the memory shared by execution and storage is reserved for
        storage.
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
    """Most bytes that one query may return to this process: half of the session's limit, as row sizes are only estimated."""
    allowed = _bytes(spark.conf.get("spark.driver.maxResultSize", None), unit="") or _MAX_RESULT_BYTES
    return allowed // 2


def _bytes(size: str | None, unit: str = "m") -> int:
    """A size in Spark's notation, in bytes; ``unit`` applies if none is given; 0 if invalid."""
    found = _MEMORY.fullmatch(str(size).strip().lower())
    return int(found[1]) << _SHIFTS[found[2] or unit] if found else 0


def time_zone(spark: SparkSession) -> str:
    """The session's time zone, for timestamps without one."""
    return str(spark.conf.get("spark.sql.session.timeZone"))


def is_case_sensitive(spark: SparkSession) -> bool:
    """Whether the session treats names that differ in case as different; a Delta table never has both."""
    return str(spark.conf.get("spark.sql.caseSensitive")).lower() == "true"


def reads_files_by_relation(spark: SparkSession) -> bool:
    """Whether Spark's Parquet reader can return the file of each row: the default (V1) reader can, the V2 reader cannot."""
    return "parquet" in str(spark.conf.get("spark.sql.sources.useV1SourceList")).lower().split(",")


def pads_char(spark: SparkSession) -> bool:
    """Whether the session's readers pad CHAR columns; they do by default. Spark: ``ApplyCharTypePadding``."""
    reads, as_string = spark.conf.get("spark.sql.readSideCharPadding"), spark.conf.get("spark.sql.legacy.charVarcharAsString")
    return str(reads).lower() == "true" and str(as_string).lower() != "true"
