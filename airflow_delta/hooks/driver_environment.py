"""The environment of ``spark-submit`` and of the driver beside the worker: what they need, not all that Airflow has.

A worker's environment holds Airflow's own secrets: connections, the Fernet key, the database. The code of a job, and SQL that
comes with a table, have no business with them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import conf

SETTING = "driver_environment"
"""Option of ``[delta]``: further names, with commas between; one with ``*`` at its end stands for all that begin so."""

NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "HOSTNAME", "LANG", "LANGUAGE", "TZ", "TERM", "COLUMNS"),
        *("TMPDIR", "TMP", "TEMP", "CLASSPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "MALLOC_ARENA_MAX"),
        *("JAVA_HOME", "JAVA_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
        *("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("KUBECONFIG", "STORAGE_EMULATOR_HOST", "BOTO_CONFIG", "MSI_ENDPOINT", "MSI_SECRET"),
    }
)
"""Names of variables, in any case."""

PREFIXES = (
    *("SPARK_", "PYSPARK_", "PYTHON", "HADOOP_", "HDFS_", "YARN_", "MAPRED_", "HIVE_", "KUBERNETES_", "KRB5", "OPENLINEAGE_"),
    *("AWS_", "AZURE_", "GOOGLE_", "GCLOUD_", "GCE_", "GCP_", "CLOUDSDK_", "IDENTITY_"),
    *("LC_", "LD_", "DYLD_", "ARROW_", "OMP_", "AIRFLOW_DELTA_", "AIRFLOW_CTX_"),
)
"""Beginnings of names, in any case: Spark and Hadoop, the machine's identity, languages, libraries, the ids of the task."""


def driver_environment(environment: Mapping[str, str], *, further: Iterable[str] = ()) -> dict[str, str]:
    """The variables that a driver gets of these.

    Args:
        environment: A worker's.
        further: Other names that it needs, ``*`` at the end for all that begin so.
    """
    wanted = [name.strip().upper() for name in further if name.strip()]
    names = NAMES.union(wanted)
    prefixes = (*PREFIXES, *(name[:-1] for name in wanted if name.endswith("*")))
    return {name: value for name, value in environment.items() if name.upper() in names or name.upper().startswith(prefixes)}


def environment_beside_worker() -> dict[str, str]:
    """The variables that a driver beside this worker gets, with those that ``[delta] driver_environment`` names."""
    return driver_environment(os.environ, further=conf.get("delta", SETTING, fallback="").split(","))


def ending_of(code: int) -> str:
    """How a process ended that returned this, which is not 0; a negative number is that of a signal."""
    return f"exit code {code}" if code > 0 else f"it was killed by {signal.Signals(-code).name}"


class DriverSubmitHook(SparkSubmitHook):
    """Upstream's hook, which starts ``spark-submit`` with the environment of a driver where it would pass on all of its own."""

    _given: dict[str, Any] | None = None
    _driver_environment: dict[str, str] | None = None

    @classmethod
    def of(cls, hook: SparkSubmitHook) -> DriverSubmitHook:
        """The same hook, as one of these."""
        made = cls.__new__(cls)
        made.__dict__.update(hook.__dict__)
        return made

    @property
    def ending(self) -> str | None:
        """How ``spark-submit`` ended; None when it ended well, or was not started."""
        code = None if self._submit_sp is None else self._submit_sp.returncode
        return ending_of(code) if code else None

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Run ``spark-submit`` to its end. The arguments are upstream's."""
        self._driver_environment = {}
        return super().submit(application, **{**kwargs, "env": self._driver_environment})

    def _build_spark_submit_command(self, application: str) -> list[str]:
        command: list[str] = super()._build_spark_submit_command(application)
        if self._driver_environment is not None:
            self._driver_environment.update(environment_beside_worker())
            self._driver_environment.update({name: str(value) for name, value in (self._env or {}).items()})
            # Upstream would put these beside all of ours.
            self._given, self._env = self._env, None
        return command

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        self._env = self._given  # for the command that ends an application on YARN
        super()._process_spark_submit_log(itr)
