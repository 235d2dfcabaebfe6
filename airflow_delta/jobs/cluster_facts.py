"""Facts about a cluster, gathered by the driver and by tasks on each executor that do not import this package."""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from threading import Event, Timer
from typing import Any
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_delta.core.storage.data_filesystem import data_filesystem
from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.jobs.errors import OTHER_PYTHON
from airflow_delta.jobs.redaction import redact
from airflow_delta.spark.errors import SparkFeatureMissingError, first_line
from airflow_delta.spark.hadoop.table_log import table_log
from airflow_delta.spark.io.data_paths import hadoop_uri
from airflow_delta.spark.jvm import Py4JJavaError, filesystem_class, hadoop_configuration, hadoop_gateway
from airflow_delta.spark.session import has_executors
from airflow_delta.spark.spark_features import check_stream_source

PACKAGES = ("pyarrow", "pandas", "numpy")

OBJECT_STORES = ("abfss", "gs", "s3a")
"""Schemes of Hadoop's connectors for object stores; these are always looked up."""
_MOST_TASKS = 1_000
_PAUSE = 3.0
"""Seconds that a task takes, so that each free executor gets one, and further executors have time to start."""
_PATIENCE = 30.0
"""Seconds in which further executors have to start; default of ``spark.scheduler.maxRegisteredResourcesWaitingTime``."""
FIRST_EXECUTOR_WAIT = 300.0
"""Seconds in which the first executor has to start: some clusters first start a node for it."""

Answer = tuple[str, int, str, str, tuple[tuple[str, str | None], ...]]
"""Answer of a task: its host, the id of the process that started its Python, and that Python's version, path and packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonFacts:
    """A Python interpreter, on the driver or on executors.

    Attributes:
        version: Its version.
        executable: Its path.
        packages: Versions of ``PACKAGES`` by name; None for a package that cannot be imported.
        hosts: Hosts of the executors that run it; empty for the driver's.
    """

    version: str
    executable: str
    packages: Mapping[str, str | None]
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The facts about a cluster.

    Attributes:
        spark: Spark's version.
        master: Spark's master URL.
        java: The version of the driver's Java.
        driver: The driver's Python.
        executors: The distinct Pythons in which tasks ran.
        hosts: Number of executors that ran tasks, by host, empty if none started; in local mode, the driver counts as one.
        expected_executors: Number of executors that are running, or that the settings ask for, whichever is larger.
        executors_failure: Why a Python function failed on executors; empty if it did not fail.
        missing_features: What this version of Spark cannot do, one text per feature.
        filesystems: Hadoop's filesystem class by URI scheme; None if Hadoop has no class for it.
        writes: By URI, the outcome of writing there for each of ``driver``, ``executors`` and ``JVM`` that tried: an empty text
            for success, else the error. If executors failed, there is an entry per failing host instead of ``executors``.
    """

    spark: str
    master: str
    java: str
    driver: PythonFacts
    executors: tuple[PythonFacts, ...]
    hosts: Mapping[str, int]
    expected_executors: int
    executors_failure: str
    missing_features: tuple[str, ...]
    filesystems: Mapping[str, str | None]
    writes: Mapping[str, Mapping[str, str]]


def cluster_facts(spark: SparkSession, uris: Iterable[str], first_executor_wait: float = FIRST_EXECUTOR_WAIT) -> ClusterFacts:
    """Gather the facts. Below each URI, an empty file is written and deleted; nothing else is changed.

    Args:
        spark: The session.
        uris: Folders for tables; the filesystems of their schemes are looked up in addition to ``OBJECT_STORES``.
        first_executor_wait: Seconds in which the first executor has to start.
    """
    places = [*uris]
    answered, failure = _executor_pythons(spark, first_executor_wait)
    executors = _each_once(answered)
    schemes = {*OBJECT_STORES, *(scheme_of(hadoop_uri(uri)) for uri in places)}
    filesystems = {scheme: filesystem_class(spark, scheme) for scheme in sorted(schemes)}
    can_work = bool(executors) and not failure and all(facts.packages["pyarrow"] for facts in executors)
    [driver] = python_facts()(iter(()))
    return ClusterFacts(
        spark=spark.version,
        master=spark.sparkContext.master,
        java=str(hadoop_gateway(spark, "")[0].java.lang.System.getProperty("java.version")),
        driver=_python(driver),
        executors=executors,
        hosts=dict(Counter(host for host, _ in answered)),
        expected_executors=_expected_executors(spark),
        executors_failure=failure,
        missing_features=_missing_features(),
        filesystems=filesystems,
        writes={
            uri: _writes(
                spark,
                uri,
                asks_jvm=filesystems[scheme_of(hadoop_uri(uri))] is not None,
                tasks=_tasks_for_each(spark) if can_work else 0,
            )
            for uri in places
        },
    )


def python_facts(pause: float = 0) -> Callable[[Iterator[Any]], Iterator[Answer]]:
    """A function that answers with the facts of the Python that runs it.

    Spark sends it by value, not by reference, because executors may be unable to import this package.

    Args:
        pause: Seconds that the function waits before it answers.
    """
    names = PACKAGES

    def look(_: Iterator[Any]) -> Iterator[Answer]:
        packages: list[tuple[str, str | None]] = []
        for name in names:
            try:
                packages.append((name, str(import_module(name).__version__)))
            except Exception:  # noqa: BLE001 - a broken package can raise anything
                packages.append((name, None))
        time.sleep(pause)
        yield socket.gethostname(), os.getppid(), platform.python_version(), sys.executable, tuple(packages)

    return look


def _executor_pythons(spark: SparkSession, first_executor_wait: float) -> tuple[dict[tuple[str, int], PythonFacts], str]:
    """The Python of each executor, by host and process id, and the error if the function failed on an executor, else empty.

    Executors start one after another, and an application may begin without any: they are asked again until their number no
    longer changes and all have answered, or ``_PATIENCE`` has passed. Both are empty if no executor started.
    """
    look = python_facts(_PAUSE if has_executors(spark) else 0)
    found: dict[tuple[str, int], PythonFacts] = {}
    expected, end = _expected_executors(spark), time.monotonic() + _PATIENCE
    with _cancelled_without_executors(spark, first_executor_wait) as cancelled:
        try:
            while True:
                tasks = _tasks_for_each(spark)
                answers = spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(look).collect()
                found |= {answer[:2]: _python(answer) for answer in answers}
                before, expected = expected, _expected_executors(spark)
                if before == expected <= len(found) or time.monotonic() > end:
                    return found, ""
        except (PySparkException, Py4JJavaError) as error:
            return found, "" if cancelled.is_set() else _reason(error)


@contextmanager
def _cancelled_without_executors(spark: SparkSession, seconds: float) -> Iterator[Event]:
    """Cancel the jobs of this block, and set the event, if no executor runs after this many seconds.

    Spark itself would wait for one without end.
    """
    tag, cancelled = f"airflow-delta-{uuid4().hex}", Event()

    def cancel() -> None:
        if not _running_executors(spark):
            cancelled.set()
            spark.sparkContext.cancelJobsWithTag(tag)

    timer = Timer(seconds, cancel)
    timer.daemon = True
    spark.sparkContext.addJobTag(tag)
    timer.start()
    try:
        yield cancelled
    finally:
        timer.cancel()
        spark.sparkContext.removeJobTag(tag)


def _each_once(answered: Mapping[tuple[str, int], PythonFacts]) -> tuple[PythonFacts, ...]:
    """The distinct Pythons, each with all hosts that run it."""
    hosts: dict[str, set[str]] = defaultdict(set)
    for (host, _), python in answered.items():
        hosts[repr(python)].add(host)
    distinct = {repr(python): python for python in answered.values()}
    return tuple(replace(python, hosts=tuple(sorted(hosts[key]))) for key, python in distinct.items())


def _tasks_for_each(spark: SparkSession) -> int:
    """Enough tasks to reach every executor, but not so many that dynamic allocation would start further executors."""
    return min(max(spark.sparkContext.defaultParallelism, _running_executors(spark)), _MOST_TASKS)


def _running_executors(spark: SparkSession) -> int:
    known = int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size())  # noqa: SLF001 - PySpark has no public way
    return known - has_executors(spark)  # it includes the driver


def _expected_executors(spark: SparkSession) -> int:
    """The number of running executors or, if that is more, what the settings ask for (fixed only on YARN and Kubernetes)."""
    conf, asked = spark.sparkContext.getConf(), "0"
    if str(conf.get("spark.dynamicAllocation.enabled", "false")).lower() == "true":
        asked = conf.get("spark.dynamicAllocation.minExecutors", "0")
    elif spark.sparkContext.master.startswith(("yarn", "k8s:")):
        asked = conf.get("spark.executor.instances", "2")
    return max(_running_executors(spark), int(asked or 0))


def _python(answer: Answer) -> PythonFacts:
    _, _, version, executable, packages = answer
    return PythonFacts(version=version, executable=executable, packages=dict(packages))


def _missing_features() -> tuple[str, ...]:
    try:
        check_stream_source()
    except SparkFeatureMissingError as error:
        return (error.claim(),)
    return ()


def _writes(spark: SparkSession, uri: str, *, asks_jvm: bool, tasks: int) -> dict[str, str]:
    """The outcomes of writing in the driver, in this number of tasks on executors, and in the JVM."""
    name = f"_airflow_delta_probe_{uuid4().hex}"
    probes: dict[str, Callable[[], Mapping[str, str] | None]] = {"driver": lambda: _write_as_log(spark, uri, name)}
    if tasks:
        probes["executors"] = lambda: _write_on_executors(spark, f"{uri.rstrip('/')}/{name}_x", tasks)
    if asks_jvm:
        probes["JVM"] = lambda: _write_in_jvm(spark, f"{hadoop_uri(uri).rstrip('/')}/{name}_jvm")
    outcomes: dict[str, str] = {}
    for who, probe in probes.items():
        try:
            outcomes |= probe() or {who: ""}
        except Exception as error:  # noqa: BLE001 - whatever fails is the answer
            outcomes[who] = _reason(error)
    return outcomes


def _write_as_log(spark: SparkSession, uri: str, name: str) -> None:
    store = table_log(spark, uri).store
    store.write(name, b"")
    store.delete([name])


def _write_on_executors(spark: SparkSession, uri: str, tasks: int) -> Mapping[str, str]:
    """The error by failing host. Tasks return errors, because Spark would retry a failed task on another host."""

    def write(numbers: Iterator[int]) -> Iterator[tuple[str, str]]:
        for number in numbers:
            try:
                filesystem, path = data_filesystem(f"{uri}_{number}")
                with filesystem.open_output_stream(path):
                    pass
                filesystem.delete_file(path)
            except Exception as error:  # noqa: BLE001 - whatever fails is the answer
                yield socket.gethostname(), f"{type(error).__name__}: {error}"

    found = spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(write).collect()
    return {f"executors on {host}": redact(first_line(RuntimeError(failure)))[:500] for host, failure in sorted(found)}


def _write_in_jvm(spark: SparkSession, uri: str) -> None:
    jvm, _ = hadoop_gateway(spark, uri)
    path = jvm.org.apache.hadoop.fs.Path(uri)
    filesystem = path.getFileSystem(hadoop_configuration(spark))
    filesystem.create(path).close()
    filesystem.delete(path, False)


def _reason(error: Exception) -> str:
    """The essential line of a long error text: the error of a worker's Python, of Java, its cause, or else the first line."""
    text = str(error)
    if other := OTHER_PYTHON.search(text):
        return other[0]
    python = re.search(r"^\w[\w.]*(?:Error|Exception): .+", text, re.MULTILINE)
    java = re.search(r"^: (.+)", text, re.MULTILINE)
    cause = re.search(r"^Caused by: (.+)", text, re.MULTILINE) if java and "Job aborted" in java[1] else None
    line = python[0] if python else cause[1] if cause else java[1] if java else first_line(error)
    return redact(line)[:500]
