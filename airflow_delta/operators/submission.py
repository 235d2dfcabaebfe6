"""The arguments of ``spark-submit`` that depend on where the driver runs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airflow_delta.hooks.errors import SparkTargetError
from airflow_delta.hooks.spark_target import SparkTarget

UPLOAD_PATH = "spark.kubernetes.file.upload.path"
"""Spark setting: the location to which ``spark-submit`` uploads local files for a driver in a pod."""

NAMESPACE = "spark.kubernetes.namespace"

_NO_WAITING = {
    "yarn": {"spark.yarn.submit.waitAppCompletion": "false"},
    "kubernetes": {"spark.kubernetes.submission.waitAppCompletion": "false"},
}
_DRIVER_MEMORY = ("spark.driver.memoryOverheadFactor", "spark.driver.memoryOverhead")

LONGEST_ARGUMENT = 100 << 10
"""Most bytes of a job spec as an argument; a longer one is sent as a file, as Linux limits an argument to 128 KiB."""


def submit_conf(conf: Mapping[str, Any] | None, target: SparkTarget, *, defers: bool) -> dict[str, Any]:
    """The Spark settings of a submit: the user's settings plus those that the target needs.

    Args:
        conf: The user's settings.
        target: Where the job goes.
        defers: Whether ``spark-submit`` should end as soon as the cluster has accepted the job.
    """
    given = dict(conf or {})
    ours: dict[str, Any] = {}
    if target.is_yarn_cluster and not any(name in given for name in _DRIVER_MEMORY):
        # The state of the log (Arrow) lies outside of the driver's heap; on Kubernetes, this is the default for Python drivers.
        ours["spark.driver.memoryOverheadFactor"] = "0.4"
    if defers:
        ours |= _NO_WAITING["kubernetes" if target.is_kubernetes else "yarn"]
        if target.is_kubernetes:
            ours[NAMESPACE] = given.get(NAMESPACE) or target.namespace or "default"
    return given | ours


def driver_python(target: SparkTarget, environment: Mapping[str, str]) -> dict[str, str]:
    """The variable that makes a driver beside the worker use the worker's Python; empty if the environment names a Python.

    Executors on other machines use the Python of ``PYSPARK_PYTHON`` or ``spark.pyspark.python``, by default ``python3``.
    """
    if target.is_cluster_mode or not environment.keys().isdisjoint({"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}):
        return {}
    return {"PYSPARK_PYTHON" if target.is_local else "PYSPARK_DRIVER_PYTHON": sys.executable}


def spec_argument(text: str, token: str, private: Path, target: SparkTarget) -> tuple[str, str | None]:
    """The value of ``--spec``, and the file to send to the driver if the text is too long for an argument, else None.

    Args:
        text: The spec as JSON.
        token: The task's idempotency token, by which a retry finds the driver (see ``hooks.orphans``).
        private: A directory that only this user can access.
        target: Where the job goes.
    """
    if len(text.encode()) <= LONGEST_ARGUMENT:
        return text, None
    file = private / f"delta-spec-{token}.json"
    file.write_text(text, encoding="utf-8")
    return (f"@{file.name}", str(file)) if target.is_cluster_mode else (f"@{file}", None)


def check_uploads(conn_id: str, target: SparkTarget, conf: Mapping[str, Any], properties_file: str | None) -> None:
    """Check that a driver in a pod will get the files that are on this machine.

    Raises:
        SparkTargetError: No upload location is configured for ``spark-submit``.
    """
    if not (target.is_kubernetes and target.is_cluster_mode) or conf.get(UPLOAD_PATH):
        return
    if not any(_mentions(file, UPLOAD_PATH) for file in _property_files(properties_file, target.binary)):
        raise SparkTargetError(
            conn_id=conn_id,
            detail="a driver in a pod does not see the job's files on this machine",
            cure=f"set {UPLOAD_PATH} in conf to a location that both reach, or code_uri to where 'airflow-delta ship' put them",
        )


def _property_files(given: str | None, binary: str | None) -> list[Path]:
    """The files from which ``spark-submit`` reads settings."""
    if given is not None:
        return [Path(given)]
    pyspark, found = find_spec("pyspark"), binary or shutil.which("spark-submit")
    homes = [
        os.environ.get("SPARK_HOME"),
        found and Path(found).resolve().parents[1],
        pyspark and Path(str(pyspark.origin)).parent,
    ]
    folders = [os.environ.get("SPARK_CONF_DIR"), *(Path(home) / "conf" for home in homes if home)]
    return [Path(folder) / "spark-defaults.conf" for folder in folders if folder]


def _mentions(file: Path, name: str) -> bool:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return False
    return any(line.strip().startswith(name) for line in lines)
