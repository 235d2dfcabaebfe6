"""Secrets that were put where others can read them: found by their names or their form, masked, and refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from airflow.providers.common.compat.sdk import mask_secret, redact

from airflow_delta.core.statements import Statement
from airflow_delta.core.statements.json_form import is_statement_value
from airflow_delta.core.storage.object_filesystem import secrets_of
from airflow_delta.hooks.errors import ExposedSecretError
from airflow_delta.hooks.spark_target import SparkTarget
from airflow_delta.jobs.secret_forms import is_harmless, named_secrets_in, secrets_in
from airflow_delta.jobs.secret_names import is_secret_name, only_describes

_LONGEST = 1_000_000  # most characters of one text that are searched
_SHORTEST_KNOWN = 12
"""A value that Airflow already masks counts as a secret from this many characters on; a shorter one may be a common word."""

_PROBE = "a probe that no connection has"
_NO_SECRETS = re.compile(r"(?i)prox(?:y|ies)|service.account|(?:de)?tokeni[sz]\w*")
"""Parts of names that contain one of Airflow's secret words without being secret: proxies, service accounts, tokenizers."""

_SETTINGS = frozenset({"options", "properties", "arguments"})
"""Fields of statements whose keys are names of settings; in other mappings, the keys are columns and the values SQL."""

_IN_SQL = frozenset({"query", "dbtable", "prepareQuery", "sessionInitStatement"})
"""Options of Spark's readers whose values are SQL."""

_COORDINATES = frozenset({"packages", "exclude_packages", "spark.jars.packages", "spark.jars.excludes"})
"""Arguments and settings whose values name packages of Maven: in ``org.acme:tokens:1.0`` the colon is no sign of a secret."""

STORAGE_OPTIONS = "storage_options"


def mask_exposed(value: Any) -> None:
    """Have Airflow hide the secrets in a rendered argument, in logs and in what it shows of rendered templates."""
    for _, secret in _found(value, "", are_settings=isinstance(value, Mapping)):
        mask_secret(secret)


def refuse_exposed(
    statement: Statement,
    conf: Mapping[str, Any] | None,
    env_vars: Mapping[str, Any] | None,
    target: SparkTarget | None,
    arguments: Mapping[str, Any] | None = None,
) -> None:
    """Refuse secrets that would go to Spark where others can read them: in its arguments and its settings.

    Args:
        statement: The job's statement.
        conf: Spark settings of the operator.
        env_vars: Environment variables of the operator.
        target: Where the job runs; None if another operator submits it.
        arguments: Other arguments of the operator that go to ``spark-submit``, by name.

    Raises:
        ExposedSecretError: There is a secret; the error names its place, not the secret.
    """
    # There, Airflow's Spark provider turns the variables into settings, and so into arguments.
    shows_variables = target is not None and (target.is_kubernetes or "yarn" in target.master)
    seen = {"conf": conf, "env_vars": env_vars if shows_variables else None, **(arguments or {})}
    found = [*_found(statement, type(statement).__name__), *_found(seen, "", are_settings=True)]
    if found:
        raise ExposedSecretError(places=tuple(dict.fromkeys(place for place, _ in found)))


def _found(value: Any, place: str, *, are_settings: bool = False) -> Iterator[tuple[str, str]]:
    """The secrets and their places; ``are_settings``: whether the keys of a mapping are names of settings."""
    if is_statement_value(value):
        for member in fields(value):
            inner = getattr(value, member.name)
            yield from _found(inner, f"{place}.{member.name}", are_settings=member.name in _SETTINGS)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _found_below(str(name), inner, f"{place}.{name}".removeprefix("."), are_settings=are_settings)
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from _found(inner, place, are_settings=are_settings)
    elif isinstance(value, str):
        yield from ((place, secret) for secret in _secrets(value, are_settings=are_settings))


def _found_below(name: str, value: Any, place: str, *, are_settings: bool) -> Iterator[tuple[str, str]]:
    if not are_settings:
        yield from _found(value, place)
    elif isinstance(value, Mapping) and name == STORAGE_OPTIONS:
        yield from ((place, secret) for secret in secrets_of(value))
    elif isinstance(value, str | int) and (name == STORAGE_OPTIONS or _is_secret(name)) and not is_harmless(str(value)):
        yield place, str(value)
    elif isinstance(value, str) and len(value) >= _SHORTEST_KNOWN and redact(value) == "***":
        yield place, value
    else:
        yield from _found(value, place, are_settings=name not in _IN_SQL | _COORDINATES)


def _is_secret(name: str) -> bool:
    """Whether Airflow's list of secret names, with what its administrator has added, or this package's own has the name."""
    by_airflow = redact(_PROBE, _NO_SECRETS.sub("", name)) != _PROBE
    return is_secret_name(name) or (by_airflow and not only_describes(name))


def _secrets(text: str, *, are_settings: bool) -> Iterator[str]:
    text = text[:_LONGEST]
    spans = [*secrets_in(text), *(named_secrets_in(text) if are_settings else ())]
    yield from (text[start:end] for start, end in spans)
