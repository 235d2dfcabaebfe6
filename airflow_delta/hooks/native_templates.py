"""Templates of DAGs with ``render_template_as_native_obj``: strings stay strings.

Airflow evaluates the result of such a template as a Python literal if it can, so that ``'closed'`` in SQL would lose its quotes
and become a column. Here a template renders to the same string as in every other DAG. It gives another value only where a
string would be of no use: a list, a mapping, a part of a statement, a ``timedelta``, or None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow.sdk import Context
from jinja2 import Environment, nodes
from jinja2.environment import TemplateExpression
from jinja2.nativetypes import NativeEnvironment

from airflow_delta.core.statements.json_form import is_statement_value


def text_environment(operator: Any, environment: Environment | None) -> Environment | None:
    """The environment that renders the templates of an operator's native DAG to strings; None if its DAG is not native.

    Args:
        operator: The operator whose templates are rendered.
        environment: As Airflow passes it to ``render_template``; None stands for the operator's own.
    """
    dag = operator.get_dag()
    if dag is None or not isinstance(environment or operator.get_template_env(), NativeEnvironment):
        return None
    found: Environment = dag.get_template_env(force_sandboxed=True)
    return found


def rendered_text(text: str, context: Context, environment: Environment) -> Any:
    """What a template renders to: a string, or the value of its only expression where a string would be of no use."""
    value = _value_of(text, context, environment)
    return value if _is_kept(value) else environment.from_string(text).render(context)


def rendered_argument(text: str, context: Context, environment: Environment) -> Any:
    """As ``rendered_text``, for an argument of a Python function: numbers and flags also keep their type."""
    value = _value_of(text, context, environment)
    return value if isinstance(value, bool | int | float) else rendered_text(text, context, environment)


@dataclass(frozen=True, slots=True)
class NativeArgument:
    """A string among the arguments of a Python function; Airflow calls ``resolve`` instead of rendering it."""

    text: str
    environment: Environment

    def resolve(self, context: Context) -> Any:
        """What the text renders to."""
        return rendered_argument(self.text, context, self.environment)

    @classmethod
    def within(cls, value: Any, environment: Environment) -> Any:
        """The value with each string in its mappings and lists wrapped as a ``NativeArgument``."""
        if isinstance(value, str):
            return cls(value, environment)
        if isinstance(value, dict):
            return {name: cls.within(member, environment) for name, member in value.items()}
        if isinstance(value, list | tuple):
            return [cls.within(member, environment) for member in value]
        return value


def _value_of(text: str, context: Context, environment: Environment) -> Any:
    """The value of a template that is a single expression; the text of any other template."""
    match environment.parse(text.strip()).body:
        case [nodes.Output(nodes=[nodes.Expr() as expression])] if not isinstance(expression, nodes.TemplateData):
            result = nodes.Assign(nodes.Name("result", "store"), expression, lineno=1)
            template = environment.from_string(nodes.Template([result], lineno=1))
            return TemplateExpression(template, undefined_to_none=False)(context)
        case _:
            return text


def _is_kept(value: Any) -> bool:
    if value is None or isinstance(value, timedelta) or is_statement_value(value):
        return True
    return isinstance(value, Mapping | Sequence | AbstractSet) and not isinstance(value, str | bytes)
