"""What is wrong with a cluster, decided from its facts alone."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_delta.core.least_versions import LEAST_PYARROW, is_at_least
from airflow_delta.core.operations.table_health import Finding, Severity
from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.jobs.cluster_facts import PACKAGES, ClusterFacts
from airflow_delta.spark.io.data_paths import hadoop_uri

LEAST_SPARK = (4, 0)
_FIRST_UNKNOWN_SPARK = (4, 4)
_NEEDED = ("pyarrow", "pandas")
_SEND = "install it for the Python that spark.pyspark.python names, on every node; or send it along: airflow-delta pack"


def check_cluster(facts: ClusterFacts) -> list[Finding]:
    """The findings, the worst first."""
    findings = [finding for check in (_versions, _packages, _storage) for finding in check(facts)]
    return sorted(findings, key=lambda finding: list(Severity).index(finding.severity))


def _versions(facts: ClusterFacts) -> Iterator[Finding]:
    if not is_at_least(facts.spark, LEAST_SPARK):
        yield _finding(Severity.ERROR, "SPARK_TOO_OLD", f"expected Spark 4.0 or newer, found {facts.spark}", "upgrade Spark")
    elif is_at_least(facts.spark, _FIRST_UNKNOWN_SPARK):
        text = f"expected Spark 4.0 to 4.3, found {facts.spark}, which was not tested"
        yield _finding(Severity.WARNING, "SPARK_UNKNOWN", text, "try your statements on a copy of a table first")
    for feature in facts.missing_features:
        yield _finding(Severity.HINT, "SPARK_FEATURE_MISSING", feature, "upgrade Spark if you need it")
    if facts.executors_failure:
        text = f"expected executors that run functions of Python {facts.driver.version}, found: {facts.executors_failure}"
        remedy = "name a Python of the driver's minor version by spark.pyspark.python (or PYSPARK_PYTHON), on every node"
        yield _finding(Severity.ERROR, "EXECUTORS_PYTHON_UNFIT", text, remedy)


def _packages(facts: ClusterFacts) -> Iterator[Finding]:
    for who, python in (("the driver", facts.driver), *(("executors", python) for python in facts.executors)):
        for name in _NEEDED:
            if python.packages[name] is None:
                text = f"expected {name}, found none that {python.executable} of {who} can import"
                yield _finding(Severity.ERROR, "PACKAGE_MISSING", text, _SEND)
        found = python.packages["pyarrow"]
        if found is not None and not is_at_least(found, LEAST_PYARROW):
            needed = ".".join(map(str, LEAST_PYARROW))
            text = f"expected pyarrow {needed} or newer, found {found} in {python.executable} of {who}"
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
