"""Arguments of ``SparkSubmitOperator`` that cannot be used with a Spark Connect server."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_delta.hooks.errors import SparkTargetError

_HARMLESS = frozenset(
    {
        *("application", "application_args", "conf", "conn_id", "env_vars", "name", "verbose", "status_poll_interval"),
        *("durable", "reconnect_on_retry", "openlineage_inject_parent_job_info", "openlineage_inject_transport_info"),
    }
)
"""Arguments that this package sets, that the driver beside the worker gets, or that do not affect the job."""

_OF_A_SESSION = "spark.sql."
"""Prefix of the settings of a session; all other settings belong to the server."""


def session_settings(operator: SparkSubmitOperator, conn_id: str) -> Mapping[str, str]:
    """The operator's settings for its Spark Connect session.

    Raises:
        SparkTargetError: The operator has an argument or a setting that such a session cannot have.
    """
    refused = [*_submit_arguments(operator), *(name for name in operator.conf or {} if not name.startswith(_OF_A_SESSION))]
    if refused:
        raise SparkTargetError(
            conn_id=conn_id,
            detail=f"a server of Spark Connect runs already, and cannot be given {', '.join(refused)}",
            cure=f"leave them out and configure the server, or use a connection of type spark; conf takes {_OF_A_SESSION}*",
        )
    return {name: str(value) for name, value in (operator.conf or {}).items()}


def _submit_arguments(operator: Any) -> list[str]:
    """The arguments for ``spark-submit`` that the operator was given."""
    parameters = signature(SparkSubmitOperator.__init__).parameters.items()
    defaults = {name: parameter.default for name, parameter in parameters if name not in _HARMLESS} | {"code_uri": None}
    given = {name: getattr(operator, name, getattr(operator, f"_{name}", None)) for name in defaults}
    return [name for name, value in given.items() if value and value != defaults[name]]
