"""XComs of a task, in a form that Airflow accepts whatever the table's log contains."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from airflow_delta.core.foreign_values import json_value

_RESERVED = "__"


def push_xcom(context: Context, key: str, value: Any) -> None:
    """Push an XCom, unless the task has ``do_xcom_push=False``."""
    if getattr(context.get("task"), "do_xcom_push", True):
        context["ti"].xcom_push(key=key, value=xcom_value(value))


def xcom_value(value: Any) -> Any:
    """The value as JSON. Keys such as ``__classname__``, which Airflow's serializer refuses, lose their leading underscores."""
    return _unreserved(json_value(value))


def _unreserved(value: Any) -> Any:
    match value:
        case dict():
            return {_name(key): _unreserved(member) for key, member in value.items()}
        case list():
            return [_unreserved(member) for member in value]
        case _:
            return value


def _name(key: str) -> str:
    return key.lstrip("_") or key.replace("_", "-") if key.startswith(_RESERVED) else key
