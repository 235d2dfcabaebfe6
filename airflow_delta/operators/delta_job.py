"""A statement that another operator submits: Livy, EMR, Dataproc, the Spark operator of Kubernetes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from airflow.sdk import Context

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import Statement
from airflow_delta.core.statements.fields import is_template
from airflow_delta.core.statements.json_form import CODE_FIELD, TYPE_KEY, is_statement_value, map_tables
from airflow_delta.core.storage.table_uri import absolute
from airflow_delta.hooks.exposed_secrets import refuse_exposed
from airflow_delta.hooks.xcoms import push_xcom
from airflow_delta.jobs.spec import SPEC_FORMAT
from airflow_delta.operators.submission import LONGEST_ARGUMENT
from airflow_delta.shipping.ship import check_destination, shipped_code

CLEAR_COUNT_KEY = "delta_generation"
"""XCom of the submitting task's clear count, by which its result is found; pushed right before it submits."""

_RUN = {
    "dag_id": "{{ ti.dag_id }}",
    "task_id": "{{ ti.task_id }}",
    "run_id": "{{ ti.run_id }}",
    "map_index": "{{ ti.map_index }}",
    "generation": "{{ ti.max_tries }}",
    "try_number": "{{ ti.try_number }}",
    "run_after": "{{ dag_run.run_after.timestamp() * 1000 }}",
    "logical_date": "{{ dag_run.logical_date.isoformat() if dag_run.logical_date else '' }}",
    "ti_id": "{{ ti.id }}",
    "owner": "{{ task.owner }}",
    "trigger": "{{ dag_run.run_type.value }}",
}
"""The requesting task run, as templates that the submitting task renders."""

_NO_LITERAL = "$ "
"""Begins a rendered text until it is JSON: native rendering takes what is a literal of Python for its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What any operator needs to submit a job.

    Attributes:
        application: URI of the script.
        py_files: The archive with the code.
        arguments: Of the application; templates, which the operator must render (its ``template_fields``).
        conf: Spark settings that a driver on a cluster should have.
        environment: What the job must find in its environment: nothing, unless it was given to ``DeltaJob``.
        pre_execute: An argument of every operator: pushes the XCom by which ``DeltaResultOperator`` knows the task's run.
    """

    application: str
    py_files: tuple[str, ...]
    arguments: tuple[str, ...]
    conf: Mapping[str, str]
    environment: Mapping[str, str]
    pre_execute: Callable[[Context], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaJob:
    """A statement that another operator submits, and whose result ``DeltaResultOperator`` fetches.

    Attributes:
        statement: What to do, of ``airflow_delta.core.statements``; its texts are templates. Tables are named by full URIs. A
            ``SequenceStatement`` is several, in order.
        scratch_uri: Where the job leaves its result: a place that Spark's driver can write and the Airflow worker can read.
        code_uri: Where ``airflow-delta ship`` has put the code of this version, as Spark names the place.
    """

    statement: Statement
    scratch_uri: str
    code_uri: str

    def __post_init__(self) -> None:
        for uri in (self.scratch_uri, self.code_uri):
            _full(uri)
        if not is_template(self.code_uri):
            check_destination(self.code_uri)
        map_tables(self.statement, _full)

    def to_submit(self, environment: Mapping[str, str] | None = None) -> Submission:
        """Application, archive, arguments, settings and environment of the job.

        Raises:
            InvalidStatementError: The statement is too large for an argument.
            ExposedSecretError: A secret stands in it, where arguments and rendered templates would show it.
        """
        refuse_exposed(self.statement, None, None, None)
        document = {
            "format": SPEC_FORMAT,
            "statement": self.statement,
            "run": _RUN,
            "scratch_uri": self.scratch_uri,
            "digest": None,  # also keeps native rendering from taking the JSON for a Python literal
        }
        spec = _template(document)
        if len(spec.encode()) > LONGEST_ARGUMENT:
            detail = f"its spec must fit into an argument of {LONGEST_ARGUMENT:,} bytes, found {len(spec.encode()):,}"
            raise InvalidStatementError(statement=f"the job of {self.statement.table}", detail=detail)
        code = shipped_code(self.code_uri, self.statement.type_name)
        return Submission(
            application=code.application,
            py_files=(code.archive,),
            arguments=("--spec", spec),
            conf={"spark.driver.memoryOverheadFactor": "0.4", "spark.executor.memoryOverheadFactor": "0.4"},
            environment=dict(environment or {}),
            pre_execute=push_clear_count,
        )


def push_clear_count(context: Context) -> None:
    """Push the clear count of the submitting task for the result's task; rendered arguments cannot be read from there."""
    push_xcom(context, CLEAR_COUNT_KEY, context["ti"].max_tries)


def _full(uri: str) -> str:
    """The URI, if it is one; what a template renders to is only known to the job."""
    return (
        uri
        if is_template(uri)
        else absolute(uri, "the job of another operator has no delta connection that gives a table root")
    )


def _template(value: Any) -> str:
    """A template that renders to the JSON text of the value with all its texts rendered."""
    if is_statement_value(value):
        members = {field.name: getattr(value, field.name) for field in fields(value)}
        texts = {name: _verbatim(member) if name == CODE_FIELD else _template(member) for name, member in members.items()}
        return _object({TYPE_KEY: json.dumps(value.type_name)} | texts)
    match value:
        case str() if is_template(value):
            return f"{{% filter string|replace('{_NO_LITERAL}', '', 1)|tojson %}}{_NO_LITERAL}{value}{{% endfilter %}}"
        case Mapping():
            return _object({key: _template(member) for key, member in value.items()})
        case list() | tuple():
            return "[" + ",".join(map(_template, value)) + "]"
        case _:
            return json.dumps(value)


def _object(members: Mapping[str, str]) -> str:
    """Names stay as they are, also those that look like templates: no operator renders them."""
    return "{" + ",".join(f"{_verbatim(name)}:{text}" for name, text in members.items()) + "}"


def _verbatim(text: str | None) -> str:
    """A text as JSON, in which Jinja sees no brace."""
    return json.dumps(text).replace("{", "\\u007b").replace("}", "\\u007d")
