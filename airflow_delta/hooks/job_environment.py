"""How the credentials of a connection reach a Spark job: in the environment of a driver beside the worker, nowhere else."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow_delta.core.storage.ambient_options import VARIABLE
from airflow_delta.core.storage.object_location import ObjectService
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.spark_target import SparkTarget

_logger = logging.getLogger(__name__)


@contextmanager
def credentials_for_the_driver(hook: DeltaHook, target: SparkTarget) -> Iterator[None]:
    """Put the credentials of the connection into this process's environment, for programs that the body starts.

    The operator's ``env_vars`` would not do: Airflow shows them in rendered templates, and on YARN and Kubernetes they become
    arguments. A driver on the cluster gets no credentials, as there is no private way to pass them.
    """
    options = hook.storage_options_by_service
    settings = hook.catalog_settings if hook.managed_tables else None
    if settings is not None and target.is_cluster_mode:
        from airflow_delta.catalogs.settings import VARIABLE as CATALOG

        _logger.warning(
            "The token of the catalog of the connection %s is not passed on: the driver runs on the cluster, and finds the "
            "catalog in the variable %s of its own environment",
            hook.delta_conn_id,
            CATALOG,
        )
        settings = None
    if options and target.is_cluster_mode:
        _logger.warning(
            "The storage options of the connection %s are not passed on: the driver runs on the cluster, and accesses the "
            "tables by the identity that it has there",
            hook.delta_conn_id,
        )
        options = {}
    elif options and target.remote is not None:
        _logger.info(
            "The storage options of the connection %s reach the driver alone: the server of Spark Connect and its Python "
            "workers access the tables by an identity of their own",
            hook.delta_conn_id,
        )
    entries = environment_of(options) | ({} if settings is None else settings.to_environment())
    former = {name: os.environ.get(name) for name in entries}
    os.environ.update(entries)
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def environment_of(options: Mapping[ObjectService, Mapping[str, Any]]) -> dict[str, str]:
    """The variables by which a job and its Python workers find storage options.

    The keys of S3 are also set under Amazon's names, from which Spark passes them to the JVM's own filesystem. For keys without
    a session token that variable is set empty, lest they be combined with the token of another identity.
    """
    if not options:
        return {}
    s3 = options.get(ObjectService.S3, {})
    pair = {"AWS_ACCESS_KEY_ID": s3.get("key"), "AWS_SECRET_ACCESS_KEY": s3.get("secret")}
    known = {**pair, "AWS_SESSION_TOKEN": s3.get("token") or ""} if all(pair.values()) else {}
    return {VARIABLE: json.dumps(options), **{name: str(value) for name, value in known.items()}}
