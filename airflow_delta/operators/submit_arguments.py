"""Checks of the arguments of a submit, before ``spark-submit`` or Airflow's hook gets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_delta.core.statements.fields import is_template, nearest, shortened
from airflow_delta.core.storage.table_uri import absolute
from airflow_delta.hooks.checked_arguments import without_run
from airflow_delta.hooks.spark_target import DEPLOY_MODES
from airflow_delta.shipping.ship import check_destination

if TYPE_CHECKING:
    from airflow_delta.operators.job import DeltaJobOperator

_OF_A_JOB = ("application", "application_args", "java_class")
"""Arguments that say what is submitted."""

_MAPPINGS = {"conf": "{'spark.executor.cores': 2}", "env_vars": "{'TEAM': 'lake'}"}
_PLACES = ("code_uri", "scratch_uri")
_LISTS = ("archives", "exclude_packages", "files", "jars", "packages", "py_files", "repositories")
_TEXTS = (
    "driver_class_path",
    "driver_memory",
    "executor_memory",
    "keytab",
    "principal",
    "properties_file",
    "proxy_user",
    "yarn_queue",
)


def refuse_another_job(operator: DeltaJobOperator) -> None:
    """Raise ``InvalidStatementError`` if an operator was given a job other than the one that it submits."""
    if given := [name for name in _OF_A_JOB if operator.argument(name)]:
        detail = f"it submits a job of its own, and takes no {' and no '.join(given)}; use SparkSubmitOperator for another job"
        raise operator.invalid(detail)


def check_submit_arguments(operator: DeltaJobOperator) -> None:
    """Check the arguments of the submit, as far as they are known. Errors show no value that may hold a secret.

    Raises:
        InvalidStatementError: An argument has the wrong type, ``deploy_mode`` is unknown, or Spark would split ``code_uri``.
        RelativePathError: ``code_uri`` or ``scratch_uri`` is relative.
    """
    known = without_run(operator)
    given = {name: known.argument(name) for name in (*_MAPPINGS, *_PLACES, *_LISTS, *_TEXTS)}
    for name, value in given.items():
        if value is None or is_template(value):
            continue
        kind = type(value).__name__
        if name in _MAPPINGS and not isinstance(value, Mapping):
            raise operator.invalid(f"{name} must be a mapping, such as {_MAPPINGS[name]}, found a {kind}")
        if name not in _MAPPINGS and not isinstance(value, str):
            several = ", several separated by commas" if name in _LISTS else ""
            raise operator.invalid(f"{name} must be a text{several}, found a {kind}")
        if name in _PLACES:
            absolute(value, f"{name} is one place for the driver and the worker")
        if name == "code_uri":
            check_destination(value)
    mode = operator.deploy_mode
    if mode is not None and mode not in DEPLOY_MODES:
        found = f"found {shortened(mode)}{nearest(mode, DEPLOY_MODES)}"
        raise operator.invalid(f"deploy_mode must be {' or '.join(DEPLOY_MODES)}, as spark-submit takes it, {found}")
