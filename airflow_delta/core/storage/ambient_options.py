"""Storage options in a process's environment: how the credentials of an Airflow connection reach a Spark job.

The variable ``AIRFLOW_DELTA_STORAGE_OPTIONS`` holds a JSON object, such as ``{"s3": {"key": "...", "secret": "..."}}``; a
Kubernetes secret can set it, too. It contains secrets, so it must never be shown or sent anywhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.storage.object_filesystem import secrets_of
from airflow_delta.core.storage.object_location import ObjectLocation
from airflow_delta.core.storage.table_uri import is_relative

VARIABLE = "AIRFLOW_DELTA_STORAGE_OPTIONS"
PREFIXES_VARIABLE = "AIRFLOW_DELTA_ALLOWED_PREFIXES"
"""A JSON list of URIs outside of their roots from which tables may read files."""


def ambient_options(location: ObjectLocation) -> Mapping[str, Any]:
    """The options that the environment has for this place; empty if it has none.

    Raises:
        InvalidStatementError: The variable is not a JSON object of objects.
    """
    options = _ambient().get(location.service, {})
    return options if are_for(options, location) else {}


def ambient_prefixes() -> tuple[str, ...]:
    """The URIs outside of any table from which tables may read files: see ``FileLocator``.

    Raises:
        InvalidStatementError: The variable is not a JSON list of texts.
    """
    return parsed_prefixes(os.environ.get(PREFIXES_VARIABLE) or "[]", PREFIXES_VARIABLE)


def parsed_prefixes(value: object, name: str) -> tuple[str, ...]:
    """URIs given as a list or as its JSON. Raises ``InvalidStatementError``, which mentions ``name``, for anything else."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, list | tuple) or any(not isinstance(uri, str) or is_relative(uri) for uri in found):
        raise InvalidStatementError(statement=name, detail='it must be a JSON list such as ["s3://lake/flights/"]')
    return tuple(found)


def ambient_secrets() -> set[str]:
    """The secrets among the environment's options, so that they can be redacted from texts."""
    try:
        return secrets_of(_ambient())
    except InvalidStatementError:
        return set()


def _ambient() -> Mapping[str, Mapping[str, Any]]:
    text = os.environ.get(VARIABLE) or "{}"
    try:
        ambient = json.loads(text)
    except ValueError:
        ambient = None
    if not isinstance(ambient, dict) or not all(isinstance(options, dict) for options in ambient.values()):
        # The value is never shown, as it contains secrets.
        raise InvalidStatementError(statement=VARIABLE, detail='it must be JSON such as {"s3": {"key": "..."}}') from None
    return ambient


def are_for(options: Mapping[str, Any], location: ObjectLocation) -> bool:
    """Whether options of the location's service also fit its account, so that no key is sent to another Azure account.

    Only Azure's URIs name accounts. A URI without an account fits all options, and options without an account fit all URIs.
    """
    account = account_of(options)
    return location.account is None or account is None or account == location.account


def account_of(options: Mapping[str, Any]) -> str | None:
    """The Azure account that storage options name; None if they name none."""
    connection_string = dict(part.partition("=")[::2] for part in str(options.get("connection_string") or "").split(";"))
    return options.get("account_name") or connection_string.get("AccountName")
