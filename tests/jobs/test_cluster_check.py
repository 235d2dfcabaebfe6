"""What the doctor finds: facts of real sessions, and findings decided from facts alone."""

import json
import socket
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pyspark
import pytest

from airflow_delta.core.operations.table_health import Severity
from airflow_delta.jobs.cluster_check import check_cluster
from airflow_delta.jobs.cluster_facts import ClusterFacts, PythonFacts, cluster_facts
from airflow_delta.jobs.doctor import table, to_json
from airflow_delta.shipping.scripts import job_script

OURS = PythonFacts(
    version="3.11.7", executable="/bin/python3", packages={"pyarrow": "26.0.1", "pandas": "2.3.3", "numpy": "2.4.6"}
)
BARE = replace(OURS, packages=dict.fromkeys(OURS.packages))
GOOD = ClusterFacts(
    spark="4.2.0",
    master="yarn",
    java="17.0.15",
    driver=OURS,
    executors=(OURS,),
    hosts={"node1": 1},
    expected_executors=1,
    executors_failure="",
    missing_features=(),
    filesystems={"s3a": "org.apache.hadoop.fs.s3a.S3AFileSystem", "gs": None},
    writes={"s3a://lake": {"driver": "", "executors": "", "JVM": ""}},
)


def test_a_cluster_that_has_everything_has_no_findings():
    assert check_cluster(GOOD) == []


@pytest.mark.parametrize(
    ("change", "codes", "words"),
    [
        (
            {"executors": (BARE,)},
            ["PACKAGE_MISSING", "PACKAGE_MISSING"],
            "expected pyarrow, found none that /bin/python3 of exec",
        ),
        (
            {"executors": (replace(OURS, packages=OURS.packages | {"pyarrow": "17.0.0"}),)},
            ["PACKAGE_TOO_OLD", "PACKAGE_VERSIONS_DIFFER"],
            "expected pyarrow 23.0 or newer, found 17.0.0 in /bin/python3 of executors",
        ),
        (
            {"executors": (OURS, replace(OURS, packages=OURS.packages | {"pandas": "2.2.0"}))},
            ["PACKAGE_VERSIONS_DIFFER"],
            "expected one version of pandas on driver and executors, found 2.2.0, 2.3.3",
        ),
        (
            {"executors": (replace(OURS, packages=OURS.packages | {"pandas": "2.1.4"}),)},
            ["PACKAGE_TOO_OLD", "PACKAGE_VERSIONS_DIFFER"],
            "expected pandas 2.2 or newer, found 2.1.4 in /bin/python3 of executors",
        ),
        (
            {"driver": replace(OURS, packages=OURS.packages | {"pandas": "2.1.4"})},
            ["PACKAGE_TOO_OLD", "PACKAGE_VERSIONS_DIFFER"],
            "expected pandas 2.2 or newer, found 2.1.4 in /bin/python3 of the driver",
        ),
        (
            {"executors": (OURS, replace(BARE, packages=OURS.packages | {"pyarrow": None}, hosts=("node7",)))},
            ["PACKAGE_MISSING"],
            "expected pyarrow, found none that /bin/python3 of executors on node7 can import",
        ),
        (
            {"executors": (OURS, replace(BARE, packages=OURS.packages | {"pandas": None}, hosts=tuple("abcdefgh")))},
            ["PACKAGE_MISSING"],
            "expected pandas, found none that /bin/python3 of executors on a, b, c, d, e and 3 other hosts can import",
        ),
        (
            {"executors": (), "executors_failure": "no such file", "hosts": {}},
            ["EXECUTORS_PYTHON_UNFIT"],
            "found: no such file",
        ),
        (
            {"executors": (), "hosts": {}, "expected_executors": 0},
            ["EXECUTORS_MISSING"],
            "expected an executor to run a task, found that none started",
        ),
        (
            {"hosts": {"node2": 1, "node1": 2}, "expected_executors": 10},
            ["EXECUTORS_SILENT"],
            "expected 10 executors to run a task, found node1: 2 executors, node2: 1 executor",
        ),
        ({"spark": "3.5.1"}, ["SPARK_TOO_OLD"], "expected Spark 4.0 or newer, found 3.5.1"),
        ({"spark": "4.4.0"}, ["SPARK_UNKNOWN"], "expected Spark 4.0 to 4.3, found 4.4.0"),
        ({"missing_features": ("streams need Spark 4.2",)}, ["SPARK_FEATURE_MISSING"], "streams need Spark 4.2"),
        ({"filesystems": {"s3a": None}}, ["FILESYSTEM_CLASS_MISSING"], "Hadoop has no filesystem for s3a"),
        (
            {"writes": {"s3a://lake": {"driver": "", "executors on node1": "AccessDenied"}}},
            ["NOT_WRITABLE"],
            "expected executors on node1 to write below s3a://lake, found: AccessDenied",
        ),
    ],
)
def test_what_a_cluster_lacks_is_named_with_what_was_expected_and_found(change, codes, words):
    findings = check_cluster(replace(GOOD, **change))
    assert [finding.code for finding in findings] == codes
    assert words in findings[0].text
    assert all(finding.remedy for finding in findings)


def test_the_worst_findings_come_first():
    findings = check_cluster(replace(GOOD, filesystems={"s3a": None}, spark="4.4.0", executors=(BARE,)))
    assert [finding.severity for finding in findings] == [Severity.ERROR, Severity.ERROR, Severity.WARNING, Severity.HINT]


@pytest.mark.classic(reason="the doctor looks at a cluster from a job that is submitted there")
def test_a_session_tells_its_versions_hosts_filesystems_and_where_it_writes(spark, tmp_path):
    facts = cluster_facts(spark, [str(tmp_path)])
    assert (facts.spark, facts.driver.packages["pyarrow"]) == (pyspark.__version__, pa.__version__)
    [executors] = facts.executors
    assert (executors.packages["pandas"], executors.version) == (pd.__version__, facts.driver.version)
    assert (facts.hosts, facts.expected_executors) == ({socket.gethostname(): 1}, 1)
    assert facts.filesystems.keys() == {"abfss", "file", "gs", "s3a"}
    assert facts.filesystems["file"].endswith("LocalFileSystem")  # Hive's, where its JARs are
    assert facts.writes[str(tmp_path)] == {"driver": "", "executors": "", "JVM": ""}
    shown = dict(table(facts))
    assert shown["Hadoop's file"] == facts.filesystems["file"]
    assert list(tmp_path.iterdir()) == []
    assert shown[f"write {tmp_path}"] == "driver: yes, executors: yes, JVM: yes"
    document = to_json(facts, check_cluster(facts))
    assert json.loads(json.dumps(document))["facts"]["hosts"] == dict(facts.hosts)


@pytest.mark.classic(reason="the doctor looks at a cluster from a job that is submitted there")
def test_where_nothing_can_be_written_each_says_why_and_nothing_is_left(spark, tmp_path):
    (tmp_path / "file").write_text("as it was")
    before = sorted(tmp_path.rglob("*"))
    facts = cluster_facts(spark, [str(tmp_path / "file" / "below")])
    [outcomes] = facts.writes.values()
    host = f"executors on {socket.gethostname()}"
    assert {who for who, failure in outcomes.items() if failure} == {"driver", host, "JVM"}
    assert "Not a directory" in outcomes[host]
    errors = [finding.code for finding in check_cluster(facts) if finding.severity is Severity.ERROR]
    assert errors == ["NOT_WRITABLE"] * 3
    assert sorted(tmp_path.rglob("*")) == before


def test_a_driver_without_pyarrow_is_told_in_one_line_and_what_else_is_missing_as_it_is():
    def errors(missing):
        script = f"import runpy, sys; sys.modules[{missing!r}] = None; runpy.run_path({str(job_script('doctor'))!r})"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        return done.stderr.splitlines()

    [line] = errors("pyarrow")
    assert line.startswith(f"expected pyarrow, found none that {sys.executable} of the driver can import. Remedy: install it")
    assert errors("fsspec")[-1].startswith("ModuleNotFoundError")
