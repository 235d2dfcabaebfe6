"""Findings about a cluster, decided from its facts alone."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_delta.core.least_versions import LEAST_PANDAS, LEAST_PYARROW, is_at_least
from airflow_delta.core.operations.table_health import Finding, Severity
from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.core.wording import counted
from airflow_delta.jobs.cluster_facts import PACKAGES, ClusterFacts, PythonFacts
from airflow_delta.jobs.spark_version import FIRST_UNTESTED_SPARK, LEAST_SPARK, TESTED
from airflow_delta.spark.io.data_paths import hadoop_uri

_NEEDED = {"pyarrow": LEAST_PYARROW, "pandas": LEAST_PANDAS}
_MOST_HOSTS = 5
"""How many hosts a text names."""
_SEND = "install it for the Python that spark.pyspark.python names, on every node; or send it along: airflow-delta pack"


def check_cluster(facts: ClusterFacts) -> list[Finding]:
    """The findings about a cluster, the worst first."""
    findings = [finding for check in (_versions, _executors, _packages, _storage) for finding in check(facts)]
    return sorted(findings, key=lambda finding: list(Severity).index(finding.severity))


def hosts(facts: ClusterFacts) -> str:
    """How many executors ran a task on each host, in words."""
    return ", ".join(f"{host}: {counted(executors, 'executor')}" for host, executors in sorted(facts.hosts.items()))


def executors(facts: ClusterFacts, python: PythonFacts) -> str:
    """The executors that run this Python, in words; with their hosts if other executors run another Python."""
    if len(facts.executors) == 1:
        return "executors"
    shown, others = python.hosts[:_MOST_HOSTS], len(python.hosts[_MOST_HOSTS:])
    return f"executors on {', '.join(shown)}" + (f" and {counted(others, 'other host')}" if others else "")


def _versions(facts: ClusterFacts) -> Iterator[Finding]:
    if not is_at_least(facts.spark, LEAST_SPARK):
        text = f"expected Spark {'.'.join(map(str, LEAST_SPARK))} or newer, found {facts.spark}"
        yield _finding(Severity.ERROR, "SPARK_TOO_OLD", text, "upgrade Spark")
    elif is_at_least(facts.spark, FIRST_UNTESTED_SPARK):
        text = f"expected Spark {TESTED}, found {facts.spark}, which was not tested"
        yield _finding(Severity.WARNING, "SPARK_UNKNOWN", text, "try your statements on a copy of a table first")
    for feature in facts.missing_features:
        yield _finding(Severity.HINT, "SPARK_FEATURE_MISSING", feature, "upgrade Spark if you need it")


def _executors(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.executors_failure:
        text = f"expected executors that run functions of Python {facts.driver.version}, found: {facts.executors_failure}"
        remedy = "name a Python of the driver's minor version by spark.pyspark.python (or PYSPARK_PYTHON), on every node"
        yield _finding(Severity.ERROR, "EXECUTORS_PYTHON_UNFIT", text, remedy)
    elif not facts.hosts:
        text = "expected an executor to run a task, found that none started"
        remedy = (
            "see on the cluster's own pages whether it has workers with the free cores and memory that spark.executor.cores "
            "and spark.executor.memory ask for; ask for less, or run this again when there is room"
        )
        yield _finding(Severity.ERROR, "EXECUTORS_MISSING", text, remedy)
    elif sum(facts.hosts.values()) < facts.expected_executors:
        text = f"expected {counted(facts.expected_executors, 'executor')} to run a task, found {hosts(facts)}"
        remedy = (
            "see in the log of the job why the others did not start or answer, and run this again: nothing is known of them"
        )
        yield _finding(Severity.WARNING, "EXECUTORS_SILENT", text, remedy)


def _packages(facts: ClusterFacts) -> Iterator[Finding]:
    for who, python in (("the driver", facts.driver), *((executors(facts, python), python) for python in facts.executors)):
        for name, least in _NEEDED.items():
            found, needed = python.packages[name], ".".join(map(str, least))
            if found is None:
                text = f"expected {name}, found none that {python.executable} of {who} can import"
                yield _finding(Severity.ERROR, "PACKAGE_MISSING", text, _SEND)
            elif not is_at_least(found, least):
                text = f"expected {name} {needed} or newer, found {found} in {python.executable} of {who}"
                yield _finding(Severity.ERROR, "PACKAGE_TOO_OLD", text, _SEND)
    for name in PACKAGES:
        versions = {python.packages[name] for python in (facts.driver, *facts.executors)} - {None}
        if len(versions) > 1:
            text = f"expected one version of {name} on driver and executors, found {', '.join(sorted(map(str, versions)))}"
            yield _finding(Severity.WARNING, "PACKAGE_VERSIONS_DIFFER", text, "install one version; or airflow-delta pack")


def _storage(facts: ClusterFacts) -> Iterator[Finding]:
    used = {scheme_of(hadoop_uri(uri)) for uri in facts.writes}
    for scheme, name in facts.filesystems.items():
        if name is None and scheme in used:
            text = f"Hadoop has no filesystem for {scheme}: files there are read and written in Python, which is slower"
            remedy = "add its JAR, such as hadoop-aws for s3a, by spark.jars.packages"
            yield _finding(Severity.HINT, "FILESYSTEM_CLASS_MISSING", text, remedy)
    for uri, outcomes in facts.writes.items():
        for who, failure in outcomes.items():
            if failure:
                text = f"expected {who} to write below {uri}, found: {failure}"
                yield _finding(Severity.ERROR, "NOT_WRITABLE", text, f"grant {who} access, or install what the text names")


def _finding(severity: Severity, code: str, text: str, remedy: str) -> Finding:
    return Finding(severity=severity, code=code, text=text, remedy=remedy)
