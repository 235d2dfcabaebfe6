"""Health check of the Python environment in which airflow-delta is installed."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path

from airflow_delta.core.operations.table_health import Finding, Severity, TableHealth

_OLDEST_JAVA = 17
_STORES = {"s3fs": "s3", "gcsfs": "gcs", "adlfs": "azure"}
_SHOWN = ("airflow-delta", "pyarrow", "pyspark", "pyspark-client", "apache-airflow")
_PROVIDER = "airflow_delta.get_provider_info:get_provider_info"


def check_installation() -> TableHealth:
    """Check packages, Java and Airflow's provider registry, without importing Airflow or Spark."""
    findings = [finding for check in (_airflow, _spark, _java, _object_stores) for finding in check()]
    findings.sort(key=lambda finding: list(Severity).index(finding.severity))
    packages = ", ".join(f"{name} {installed(name)}" for name in _SHOWN)
    return TableHealth(table=f"Python {platform.python_version()}, {packages}", version=None, findings=tuple(findings))


def installed(package: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _airflow() -> Iterator[Finding]:
    if installed("apache-airflow") is None:
        yield _finding(
            Severity.HINT,
            "AIRFLOW_MISSING",
            "Airflow is not installed: operators and sensors cannot be used here",
            "pip install 'airflow-delta[airflow]', if this is an Airflow worker",
        )
    elif _PROVIDER not in {entry_point.value for entry_point in entry_points(group="apache_airflow_provider")}:
        yield _finding(
            Severity.ERROR,
            "PROVIDER_NOT_REGISTERED",
            "Airflow cannot find this provider: its entry point is missing",
            "install airflow-delta as a package, not by adding its path",
        )


def _spark() -> Iterator[Finding]:
    spark, client = installed("pyspark"), installed("pyspark-client")
    if spark is None and client is None:
        yield _finding(
            Severity.HINT,
            "SPARK_MISSING",
            "PySpark is not installed: jobs can be submitted only where spark-submit is on PATH",
            "pip install 'airflow-delta[spark]', or 'airflow-delta[connect]' for Spark Connect alone",
        )
        return
    if spark is None:
        yield _finding(
            Severity.HINT,
            "SPARK_CLIENT_ALONE",
            f"pyspark-client {client} is installed without pyspark: jobs run over Spark Connect, and are submitted only where "
            "spark-submit is on PATH",
            f"pip install pyspark=={client}, in this very version, if jobs are submitted from here",
        )
    elif client not in (None, spark):
        yield _finding(
            Severity.ERROR,
            "SPARK_VERSIONS_MIXED",
            f"pyspark {spark} and pyspark-client {client} share files: Spark's Python functions fail",
            f"install both in one version that both have, such as pip install pyspark=={client} pyspark-client=={client}",
        )
    needed = {"pandas": "PySpark's Arrow functions need it"} | ({} if spark else {"grpcio": "Spark Connect needs it"})
    for package, reason in needed.items():
        if installed(package) is None:
            yield _finding(
                Severity.ERROR,
                f"{package.upper()}_MISSING",
                f"{package} is not installed, but {reason}",
                f"pip install 'airflow-delta[{'spark' if spark else 'connect'}]'",
            )


def _java() -> Iterator[Finding]:
    if installed("pyspark") is None:
        return
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    found = _java_version_text(java)
    number = re.search(r'version "(\d+)', found or "")
    if number is None or int(number[1]) < _OLDEST_JAVA:
        said = f"{java} is version {number[1]}" if number else f"{java} cannot be run"
        yield _finding(
            Severity.ERROR,
            "JAVA_UNFIT",
            f"Spark 4 needs Java {_OLDEST_JAVA} or newer; {said}",
            f"install a Java {_OLDEST_JAVA} runtime and set JAVA_HOME",
        )


def _java_version_text(java: str) -> str | None:
    program = shutil.which(java)
    if program is None:
        return None
    try:
        done = subprocess.run([program, "-version"], capture_output=True, check=False, timeout=60)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):  # not a program for this machine, or it hangs
        return None
    return done.stderr.decode(errors="replace")


def _object_stores() -> Iterator[Finding]:
    for package, extra in _STORES.items():
        if installed(package) is None:
            yield _finding(
                Severity.HINT,
                "STORE_MISSING",
                f"{package} is not installed: tables on this store cannot be opened",
                f"pip install 'airflow-delta[{extra}]', if you use such tables",
            )


def _finding(severity: Severity, code: str, text: str, remedy: str) -> Finding:
    return Finding(severity=severity, code=code, text=text, remedy=remedy)
