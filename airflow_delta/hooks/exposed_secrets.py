"""Secrets that were put where others can read them: found by their names or their form, masked, and refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from airflow.sdk.log import mask_secret

from airflow_delta.core.statements import Statement
from airflow_delta.core.statements.json_form import is_statement_value
from airflow_delta.hooks.errors import ExposedSecretError
from airflow_delta.hooks.spark_target import SparkTarget

# Settings of Hadoop and Spark, variables and storage options. Not those that name a file, a class or a Kubernetes secret.
_NAME = re.compile(
    r"(?i)^(?!.*secretKeyRef).*"
    r"(access.?key|secret.?key|account.?key|private.?key|encryption.?key|client.?secret|authenticate\.secret|passw(or)?d"
    r"|session.?token|sas.?token|oauth.?token|azure\.sas\.|connection.?string|storage_options)"
    r"(?!.*(provider|provider.type|[._]?file|[._]path|confname)$)"
)
_IN_URI = re.compile(
    r"\w+://[^/\s@'\"]*:(?P<password>[^/\s@'\"]+)@"
    r"|[?&](?:sig|signature|x-amz-signature|x-amz-credential|x-amz-security-token|token|secret|password)="
    r"(?P<signature>[^&\s'\"]+)",
    re.IGNORECASE,
)


def mask_exposed(value: Any) -> None:
    """Have Airflow hide the secrets in a rendered argument, in logs and in what it shows of rendered templates."""
    for _, secret in _found(value, ""):
        mask_secret(secret)


def refuse_exposed(
    statement: Statement, conf: Mapping[str, Any] | None, env_vars: Mapping[str, Any] | None, target: SparkTarget | None
) -> None:
    """See that no secret goes to Spark where others can read it: its arguments and its settings.

    :param target: Where it goes; None where another operator submits it.

    :raises ExposedSecretError: One would; the error names the place and not the secret.
    """
    # Upstream makes settings, and so arguments, of the variables there.
    shows_variables = target is not None and (target.is_kubernetes or "yarn" in target.master)
    seen = {"conf": conf, "env_vars": env_vars if shows_variables else None}
    places = [place for place, _ in [*_found(statement, type(statement).__name__), *_found(seen, "")]]
    if places:
        raise ExposedSecretError(places=tuple(dict.fromkeys(places)))


def _found(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Where secrets stand, and the secrets."""
    if is_statement_value(value):
        for each in fields(value):
            yield from _found(getattr(value, each.name), f"{place}.{each.name}")
    elif isinstance(value, Mapping):
        for name, each in value.items():
            below = f"{place}.{name}".removeprefix(".")
            if _NAME.match(str(name)) and isinstance(each, str) and each:
                yield below, each
            else:
                yield from _found(each, below)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _found(each, place)
    elif isinstance(value, str):
        for match in _IN_URI.finditer(value):
            yield place, match["password"] or match["signature"]
