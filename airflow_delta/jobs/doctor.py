"""The main function of the job that checks a cluster."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from airflow_delta.core.foreign_values import json_value, printable
from airflow_delta.core.operations.table_health import Finding, Severity
from airflow_delta.jobs.cluster_check import check_cluster, executors, hosts
from airflow_delta.jobs.cluster_facts import FIRST_EXECUTOR_WAIT, ClusterFacts, PythonFacts, cluster_facts
from airflow_delta.jobs.session import job_session


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the cluster, print facts and findings, and return the exit code: 1 if a finding is an error.

    Args:
        arguments: The command line; the process's own when None.
    """
    parser = argparse.ArgumentParser(description="What a cluster has and lacks for Delta tables")
    parser.add_argument("uri", nargs="*", help="a folder for tables: an empty file is written there and deleted")
    parser.add_argument("--json", action="store_true", help="print one line of JSON instead of a table")
    wait = "how long to wait for the first executor (default: %(default)g)"
    parser.add_argument("--wait", type=float, default=FIRST_EXECUTOR_WAIT, metavar="SECONDS", help=wait)
    chosen = parser.parse_args(arguments)
    spark = job_session("airflow-delta doctor")
    try:
        facts = cluster_facts(spark, chosen.uri, chosen.wait)
    finally:
        spark.stop()
    findings = check_cluster(facts)
    if chosen.json:
        sys.stdout.write(json.dumps(to_json(facts, findings)) + "\n")
    else:
        rows = [
            *table(facts),
            *((f"{finding.severity} {finding.code}", f"{finding.text}. Remedy: {finding.remedy}") for finding in findings),
        ]
        width = max(len(name) for name, _ in rows)
        sys.stdout.writelines(f"{name:<{width}}  {printable(value)}\n" for name, value in rows)
    return int(any(finding.severity is Severity.ERROR for finding in findings))


def to_json(facts: ClusterFacts, findings: Sequence[Finding]) -> dict[str, Any]:
    """Facts and findings as a JSON object: ``table`` (pairs of texts, for people), ``facts``, ``findings``."""
    found = {"table": [*table(facts)], "facts": asdict(facts), "findings": [asdict(finding) for finding in findings]}
    return dict(json_value(found))


def table(facts: ClusterFacts) -> Iterator[tuple[str, str]]:
    """The facts about the cluster as pairs of a name and a text."""
    yield "Spark", f"{facts.spark} on {facts.master}, Java {facts.java}"
    yield "driver", _python(facts.driver)
    for python in facts.executors:
        yield executors(facts, python), _python(python)
    if facts.executors_failure:
        yield "executors", facts.executors_failure
    yield "hosts", hosts(facts) or "none ran a task"
    for scheme, name in facts.filesystems.items():
        yield f"Hadoop's {scheme}", name or "none"
    for uri, outcomes in facts.writes.items():
        yield f"write {uri}", ", ".join(f"{who}: {failure or 'yes'}" for who, failure in outcomes.items())


def _python(python: PythonFacts) -> str:
    packages = ", ".join(f"{name} {version or 'missing'}" for name, version in python.packages.items())
    return f"Python {python.version} ({python.executable}), {packages}"
