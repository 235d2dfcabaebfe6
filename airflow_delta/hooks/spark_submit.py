"""The only module that uses private members of Airflow's Spark provider ("upstream" below).

A release of the provider may move any of them: ``tests/hooks/test_spark_submit.py`` then names the one that moved, and
pyproject.toml excludes the next major version until that test passes with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_delta.hooks.driver_environment import ending_of, environment_beside_worker
from airflow_delta.jobs.worker_processes import VARIABLE

PRIVATE = {
    SparkSubmitOperator: (
        *("_conn_id", "_deploy_mode", "_get_hook", "_hook", "_spark_binary", "_track_driver_via_k8s_api"),
        "_yarn_track_via_rm_api",
    ),
    SparkSubmitHook: (
        *("_build_spark_submit_command", "_connection", "_delete_driver_pod", "_env", "_kill_yarn_application"),
        *("_kubernetes_driver_pod", "_process_spark_submit_log", "_submit_sp", "_yarn_application_id"),
    ),
}
"""The private members, by the class whose instances have them."""

_NOT_ON_THE_COMMAND = frozenset(
    {"application", "application_args", "conf", "conn_id", "env_vars", "post_submit_commands", "yarn_rm_auth"}
)
"""Arguments that are not for ``spark-submit``, are set for each submit, or are checked separately."""


class DriverSubmitHook(SparkSubmitHook):
    """Upstream's hook, but ``spark-submit`` gets a driver's environment instead of all variables of the worker."""

    _given: dict[str, Any] | None = None
    _driver_environment: dict[str, str] | None = None

    @classmethod
    def of(cls, hook: SparkSubmitHook) -> DriverSubmitHook:
        """The hook as a ``DriverSubmitHook`` with the same state."""
        made = cls.__new__(cls)
        made.__dict__.update(hook.__dict__)
        return made

    @property
    def ending(self) -> str | None:
        """How ``spark-submit`` ended; None when it ended well, or was not started."""
        code = None if self._submit_sp is None else self._submit_sp.returncode
        return ending_of(code) if code else None

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Run ``spark-submit`` to its end, with upstream's arguments."""
        self._driver_environment = {}
        return super().submit(application, **{**kwargs, "env": self._driver_environment})

    def _build_spark_submit_command(self, application: str) -> list[str]:
        command: list[str] = super()._build_spark_submit_command(application)
        if self._driver_environment is not None:
            self._driver_environment.update(environment_beside_worker())
            if self._connection["deploy_mode"] == "cluster":
                self._driver_environment[VARIABLE] = ""  # a driver on the cluster outlives the worker
            self._driver_environment.update({name: str(value) for name, value in (self._env or {}).items()})
            # Upstream would add these to the whole environment of this process.
            self._given, self._env = self._env, None
        return command

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        self._env = self._given  # upstream kills an application on YARN with them
        super()._process_spark_submit_log(itr)


class SubmitOperator(SparkSubmitOperator):
    """Upstream's operator with public names for the private members that a statement's task needs."""

    @property
    def spark_conn_id(self) -> str:
        """The Spark connection."""
        return str(self._conn_id)

    @property
    def deploy_mode(self) -> str | None:
        """The operator's own deploy mode."""
        return self._deploy_mode

    @property
    def submit_binary(self) -> str | None:
        """The operator's own ``spark-submit``."""
        return self._spark_binary

    @submit_binary.setter
    def submit_binary(self, binary: str | None) -> None:
        self._spark_binary = binary

    def argument(self, name: str) -> Any:
        """One of the operator's arguments, wherever upstream keeps it."""
        return getattr(self, name, getattr(self, f"_{name}", None))

    @property
    def command_arguments(self) -> dict[str, Any]:
        """The given arguments of upstream's that end up on the command line of ``spark-submit``, by name."""
        names = signature(SparkSubmitOperator.__init__).parameters.keys() - _NOT_ON_THE_COMMAND
        given = {name: self.argument(name) for name in sorted(names)}
        return {name: value for name, value in given.items() if isinstance(value, str | list | tuple)}

    @property
    def submit_ending(self) -> str | None:
        """How ``spark-submit`` ended; None when it ended well, or was not started."""
        return self._hook.ending if isinstance(self._hook, DriverSubmitHook) else None

    @property
    def yarn_application(self) -> str | None:
        """YARN's id of the submitted application."""
        return getattr(self._hook, "_yarn_application_id", None)

    @property
    def follows_yarn(self) -> bool:
        """Whether the application's state comes from the resource manager's REST API."""
        return self._yarn_track_via_rm_api

    @follows_yarn.setter
    def follows_yarn(self, follows: bool) -> None:
        self._yarn_track_via_rm_api = follows

    def follow_pod(self) -> None:
        """Take the driver's state from the API of Kubernetes; otherwise upstream looks for an exit code in the log."""
        self._track_driver_via_k8s_api = True

    def kill_driver(self, job_id: str) -> None:
        """Have the cluster kill a driver, by YARN's id of the application or ``namespace:pod``; its answer is only logged."""
        hook: Any = super()._get_hook()
        if job_id.startswith("application_"):
            hook._kill_yarn_application(job_id)  # noqa: SLF001 - upstream has no public way, as below
        else:
            namespace, hook._kubernetes_driver_pod = job_id.split(":", 1)  # noqa: SLF001
            hook._connection["namespace"] = namespace  # noqa: SLF001
            hook._delete_driver_pod()  # noqa: SLF001

    def _get_hook(self) -> SparkSubmitHook:
        return DriverSubmitHook.of(super()._get_hook())
