"""Templates of DAGs with ``render_template_as_native_obj``: what is a text stays one.

Airflow takes what such a template renders to for a literal of Python where it is one, so that ``'closed'`` in SQL would lose
its quotes and become a column. Here a template renders to the text that it renders to in every other DAG, and gives a value
only where a text would be of no use: a list, a mapping, a part of a statement, a length of time, or None.
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
    """The environment that renders the templates of an operator's native DAG to texts; None where its DAG is not native.

    Args:
        operator: Whose templates are rendered.
        environment: As Airflow passes it to ``render_template``; None stands for the operator's own.
    """
    dag = operator.get_dag()
    if dag is None or not isinstance(environment or operator.get_template_env(), NativeEnvironment):
        return None
    found: Environment = dag.get_template_env(force_sandboxed=True)
    return found


def rendered_text(text: str, context: Context, environment: Environment) -> Any:
    """What a text renders to: its text, or the value of its only expression, where a text would be of no use."""
    value = _value_of(text, context, environment)
    return value if _is_kept(value) else environment.from_string(text).render(context)


def rendered_argument(text: str, context: Context, environment: Environment) -> Any:
    """As ``rendered_text``, of an argument of a Python function: numbers and flags stay what they are, too."""
    value = _value_of(text, context, environment)
    return value if isinstance(value, bool | int | float) else rendered_text(text, context, environment)


@dataclass(frozen=True, slots=True)
class NativeArgument:
    """A text among the arguments of a Python function, which Airflow resolves instead of rendering it."""

    text: str
    environment: Environment

    def resolve(self, context: Context) -> Any:
        """What the text renders to."""
        return rendered_argument(self.text, context, self.environment)

    @classmethod
    def within(cls, value: Any, environment: Environment) -> Any:
        """The value with each text in its mappings and lists as one of these."""
        if isinstance(value, str):
            return cls(value, environment)
        if isinstance(value, dict):
            return {name: cls.within(member, environment) for name, member in value.items()}
        if isinstance(value, list | tuple):
            return [cls.within(member, environment) for member in value]
        return value


def _value_of(text: str, context: Context, environment: Environment) -> Any:
    """The value of the expression that the template is; the text where there is more than one, or none."""
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
