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
"""Key of the XCom with the submitting task's clear count, by which its result is found; pushed right before it submits."""

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
"""The submitting task's run, as templates that the submitting task renders."""

_NO_LITERAL = "$ "
"""Prefix of a rendered string until it is JSON, so that native rendering does not evaluate it as a Python literal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What any operator needs to submit a job.

    Attributes:
        application: URI of the script.
        py_files: The archive with the code.
        arguments: Arguments of the application. They are templates, which the operator must render (its ``template_fields``).
        conf: Spark settings for a driver on a cluster.
        environment: Environment variables for the job: those that were passed to ``to_submit``.
        pre_execute: Value for the operator's argument of this name: pushes the XCom by which ``DeltaResultOperator`` finds the
            job.
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
        statement: A statement of ``airflow_delta.core.statements``; its strings are templates, its tables full URIs. A
            ``SequenceStatement`` holds several statements, in order.
        scratch_uri: URI of the location for the job's result, which Spark's driver can write and the Airflow worker can read.
        code_uri: URI, as Spark writes it, of the location to which ``airflow-delta ship`` has copied the code of this version.
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
        """Application, archive, arguments, settings and environment for another operator.

        Args:
            environment: Environment variables for the job.

        Raises:
            InvalidStatementError: The statement is too large for an argument.
            ExposedSecretError: The statement holds a secret, which arguments and rendered templates would show.
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
    """Push the submitting task's clear count for the result task, which cannot read this task's rendered arguments."""
    push_xcom(context, CLEAR_COUNT_KEY, context["ti"].max_tries)


def _full(uri: str) -> str:
    """The URI, checked to be absolute; a template is accepted, because its value is only known in a run."""
    return (
        uri
        if is_template(uri)
        else absolute(uri, "the job of another operator has no delta connection that gives a table root")
    )


def _template(value: Any) -> str:
    """A template that renders to the value as JSON, with all strings in it rendered."""
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
    """A JSON object. Its names are never rendered, even if they look like templates."""
    return "{" + ",".join(f"{_verbatim(name)}:{text}" for name, text in members.items()) + "}"


def _verbatim(text: str | None) -> str:
    """A string as JSON with escaped braces, which Jinja does not take for a template."""
    return json.dumps(text).replace("{", "\\u007b").replace("}", "\\u007d")
