"""Where a job will run, checked before anything is submitted."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from airflow_delta.core.statements.fields import nearest, shortened
from airflow_delta.hooks.connect_server import CONN_TYPE, server_address, server_url
from airflow_delta.hooks.errors import SparkTargetError
from airflow_delta.hooks.storage_connection import extra_of

_MASTER = re.compile(r"yarn|local(-cluster)?(\[.*\])?|[^:/]+://.+")
"""What Spark accepts as a master; third-party cluster managers have a scheme, too."""

DEPLOY_MODES = ("client", "cluster")
"""What ``spark-submit`` accepts as a deploy mode, in lower case only."""

YARN_WEBAPP = "yarn_resourcemanager_webapp_address"
"""The extra of a Spark connection by which ``SparkSubmitOperator`` follows an application over REST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTarget:
    """What the Spark connection and the operator's own arguments say about where a job runs.

    Attributes:
        master: Spark's master URL, such as ``local[2]``, ``yarn``, ``k8s://https://host``.
        is_cluster_mode: Whether the driver runs on the cluster rather than beside the Airflow worker.
        yarn_webapp: Address of YARN's resource manager; None if the connection does not name it.
        namespace: The Kubernetes namespace; None if the connection does not name it.
        binary: Path of ``spark-submit`` if it is only found beside this Python; None if the usual search finds it.
        remote: Value of ``SPARK_REMOTE`` for a server of Spark Connect, a secret; None for any other target.
    """

    master: str
    is_cluster_mode: bool
    yarn_webapp: str | None
    namespace: str | None
    binary: str | None
    remote: str | None = field(default=None, repr=False)

    @property
    def is_local(self) -> bool:
        """Whether driver and executors run on this machine."""
        return self.master.startswith("local")

    @property
    def is_yarn_cluster(self) -> bool:
        """Whether the driver runs in a YARN container."""
        return self.is_cluster_mode and "yarn" in self.master

    @property
    def is_kubernetes(self) -> bool:
        """Whether executors (and in cluster mode the driver) are pods."""
        return self.master.startswith("k8s://")

    @property
    def reports_drivers(self) -> bool:
        """Whether the cluster's API reports the state of a driver."""
        return self.is_cluster_mode and (self.is_kubernetes or (self.is_yarn_cluster and self.yarn_webapp is not None))


def spark_target(conn_id: str, deploy_mode: str | None, binary: str | None = None) -> SparkTarget:
    """The target of a connection.

    Args:
        conn_id: The Spark connection.
        deploy_mode: The operator's own deploy mode; it takes precedence over the connection's.
        binary: The operator's own ``spark-submit``; it takes precedence over the connection's.

    Raises:
        SparkTargetError: The connection does not exist (``SparkSubmitHook`` would use YARN), or cannot run Python jobs.
        DeltaConnectionError: The connection's extra is not a JSON object.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise SparkTargetError(
            conn_id=conn_id,
            detail="expected a connection of this name in Airflow, found none",
            cure=f"create it, for example: airflow connections add {conn_id} --conn-type spark --conn-host 'local[*]'",
        ) from None
    extra = extra_of(connection)
    if connection.conn_type == CONN_TYPE:
        address = server_address(conn_id, connection)
        return SparkTarget(
            master=address,
            is_cluster_mode=False,
            yarn_webapp=None,
            namespace=None,
            binary=None,
            remote=server_url(connection, address),
        )
    master = _master(connection)
    if not _MASTER.fullmatch(master):
        raise SparkTargetError(
            conn_id=conn_id,
            detail="expected the URL of a master (local[*], yarn, spark://host:7077, k8s://https://host), "
            f"found {shortened(master)} by the type {connection.conn_type} and its host",
            cure="name a connection of the type spark or spark_connect, and write the URL as its host",
        )
    is_cluster_mode = (deploy_mode or _deploy_mode(conn_id, extra)) == "cluster"
    if is_cluster_mode and master.startswith("spark://"):
        raise SparkTargetError(
            conn_id=conn_id,
            detail="Spark's standalone cluster cannot take a Python driver",
            cure="set the deploy mode to client",
        )
    if master.startswith("k8s://") and find_spec("airflow.providers.cncf") is None:
        raise SparkTargetError(
            conn_id=conn_id,
            detail="its master is Kubernetes, and Airflow's Kubernetes provider is not installed",
            cure="pip install 'airflow-delta[kubernetes]'",
        )
    return SparkTarget(
        master=master,
        is_cluster_mode=is_cluster_mode,
        yarn_webapp=_text(conn_id, extra, YARN_WEBAPP),
        namespace=_text(conn_id, extra, "namespace"),
        binary=_binary(conn_id, binary or _text(conn_id, extra, "spark-binary") or "spark-submit"),
    )


def _text(conn_id: str, extra: Mapping[str, Any], name: str) -> str | None:
    value = extra.get(name)
    if not isinstance(value, str | None):
        raise SparkTargetError(
            conn_id=conn_id,
            detail=f"expected a text as {name} in its extra, found a {type(value).__name__}",
            cure="write it as a text",
        )
    return value


def _deploy_mode(conn_id: str, extra: Mapping[str, Any]) -> str | None:
    mode = _text(conn_id, extra, "deploy-mode")
    if mode and mode not in DEPLOY_MODES:
        raise SparkTargetError(
            conn_id=conn_id,
            detail=f"expected {' or '.join(DEPLOY_MODES)} as deploy-mode in its extra, found {shortened(mode)}"
            + nearest(mode, DEPLOY_MODES),
            cure="write it in lower case, as spark-submit takes it",
        )
    return mode


def _master(connection: Any) -> str:
    """The master as ``SparkSubmitHook`` reads it: the host may hold the whole URL."""
    if connection.conn_type == "spark" and connection.host and ("://" in connection.host or not connection.port):
        return str(connection.host)
    return f"{connection.conn_type}://{connection.host or ''}"


def _binary(conn_id: str, name: str) -> str | None:
    if shutil.which(name) is not None:
        return None
    beside = Path(sys.executable).parent / name
    if beside.exists():
        return str(beside)
    raise SparkTargetError(
        conn_id=conn_id,
        detail=f"{name} is neither on the PATH nor beside this Python",
        cure="install Spark on the Airflow worker, for example: pip install 'airflow-delta[spark]'",
    )
