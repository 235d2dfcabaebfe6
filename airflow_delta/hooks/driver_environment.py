"""The environment of ``spark-submit`` and of a driver beside the worker: only the variables that they need.

A worker's environment holds Airflow's own secrets: connections, the Fernet key, the URL of the database. The code of a job, and
SQL expressions stored in a table, must not get at them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping

from airflow.providers.common.compat.sdk import conf

from airflow_delta.hooks.airflow_features import supervisor_pid
from airflow_delta.jobs.worker_processes import VARIABLE, WorkerProcesses

SETTING = "driver_environment"
"""Option of ``[delta]``: further names, separated by commas; a ``*`` at the end of a name makes it a prefix."""

NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "HOSTNAME", "LANG", "LANGUAGE", "TZ", "TERM", "COLUMNS"),
        *("TMPDIR", "TMP", "TEMP", "CLASSPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "MALLOC_ARENA_MAX"),
        *("JAVA_HOME", "JAVA_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
        *("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY", "NO_GRPC_PROXY"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("KUBECONFIG", "STORAGE_EMULATOR_HOST", "BOTO_CONFIG", "MSI_ENDPOINT", "MSI_SECRET"),
    }
)
"""Names of variables, in any case."""

PREFIXES = (
    *("SPARK_", "PYSPARK_", "PYTHON", "HADOOP_", "HDFS_", "YARN_", "MAPRED_", "HIVE_", "KUBERNETES_", "KRB5", "OPENLINEAGE_"),
    *("AWS_", "AZURE_", "GOOGLE_", "GCLOUD_", "GCE_", "GCP_", "CLOUDSDK_", "IDENTITY_"),
    *("LC_", "LD_", "DYLD_", "ARROW_", "OMP_", "GRPC_", "AIRFLOW_DELTA_", "AIRFLOW_CTX_"),
)
"""Prefixes of names, in any case: Spark and Hadoop, the machine's identity, languages, libraries, the ids of the task."""


def driver_environment(environment: Mapping[str, str], *, further: Iterable[str] = ()) -> dict[str, str]:
    """The worker's variables that a driver gets.

    Args:
        environment: The worker's environment.
        further: Further names; a ``*`` at the end makes a name a prefix.
    """
    wanted = [name.strip().upper() for name in further if name.strip()]
    names = NAMES.union(wanted)
    prefixes = (*PREFIXES, *(name[:-1] for name in wanted if name.endswith("*")))
    return {name: value for name, value in environment.items() if name.upper() in names or name.upper().startswith(prefixes)}


def environment_beside_worker() -> dict[str, str]:
    """The variables that a driver beside this worker gets, with those that ``[delta] driver_environment`` names.

    One of the variables lists the processes of this task: if one of them ends, the driver ends itself.
    """
    worker = WorkerProcesses.of(*filter(None, [os.getpid(), supervisor_pid()]))
    further = conf.get("delta", SETTING, fallback="").split(",")
    environment = driver_environment(os.environ, further=further)
    return environment | ({VARIABLE: ""} if worker is None else worker.to_environment())


def ending_of(code: int) -> str:
    """How a process with this return code ended: not 0; a negative code is the number of a signal."""
    if code > 0:
        return f"exit code {code}"
    named = -code in [*signal.Signals]  # real-time signals have no name
    return f"it was killed by {signal.Signals(-code).name if named else f'signal {-code}'}"
