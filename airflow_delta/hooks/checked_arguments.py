"""The arguments of operators and sensors: checked when the DAG is parsed, and again when their templates are rendered."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields
from functools import cache
from itertools import takewhile
from typing import Any, ClassVar, TypeVar

from airflow.sdk import Context, XComArg
from airflow.sdk.bases.operator import BaseOperatorMeta

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import SetDefault, TableSource
from airflow_delta.core.statements.fields import converted_value, nearest
from airflow_delta.core.statements.json_form import is_statement_value
from airflow_delta.hooks.airflow_features import HAS_RETRY_POLICIES, MAPPED_FLAG, RetryPolicy
from airflow_delta.hooks.exposed_secrets import mask_exposed
from airflow_delta.hooks.native_templates import rendered_text, text_environment
from airflow_delta.hooks.retry_policy import DEFAULT, failing_fast, policy_arguments

LATER = "{{ an argument that only a run has }}"
"""Stands for the result of another task while the DAG is parsed."""

_MEANINGS_OF_NONE = {
    "where": ("a condition", "all rows"),
    "partitions": ("a condition", "any partition"),
    "operations": ("an operation", "any operation"),
    "min_rows": ("a number", "any number of rows"),
    "expect": ("a check", "no check"),
    "staged": ("a handle", "the table as it is"),
    "source_version": ("a version", "the latest version"),
    "condition": ("a condition", "all rows"),
    "on": ("a condition", "rows that are written, not merged"),
    "clauses": ("clauses", "an upsert"),
    "pattern": ("a glob", "everything"),
    "txn": ("an application and a number", "a write that may be done twice"),
}
"""Arguments, and fields of their values, that must not become None once given: what is expected, and what None would mean.

None can come from a DAG with ``render_template_as_native_obj``, from a task that returned nothing, and from ``expand``.
"""

_MEANINGS_IN_VALUES = {(SetDefault.type_name, "sql"): ("an expression", "no default")}
"""The same, for a field of one type of value only."""

Operator = TypeVar("Operator")


class CheckedOperatorMeta(BaseOperatorMeta):
    """Metaclass that checks an operator's arguments as soon as its constructor has finished."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - it is a metaclass
        """Make the operator. Raises ``InvalidStatementError`` for arguments that are wrong whatever templates render to."""
        _refuse_unknown(cls, kwargs)  # before Airflow reports a misspelled argument as missing
        operator = super().__call__(*args, **kwargs)
        if kwargs.get(MAPPED_FLAG) and kwargs.get("where", "") is None:
            raise operator.invalid(_nothing("where", *_MEANINGS_OF_NONE["where"]))
        operator.check_arguments()
        operator.template_fields = [name for name in operator.template_fields if _is_given(getattr(operator, name))]
        return operator


class CheckedArguments(metaclass=CheckedOperatorMeta):
    """Base of operators and sensors that refuse invalid arguments as early as possible.

    Flags, numbers and words are converted whenever they are set: in the constructor, and when Airflow has rendered their
    templates. Until then, a template and the result of another task are kept as they are.

    The ``template_fields`` of an instance are those fields of its class that were given: the others have nothing to render, and
    would be empty rows on Airflow's page of rendered templates.

    Args:
        retry_policy: Which errors are retried. Default: those that another try may overcome, such as a lost commit race.
    """

    template_fields: Sequence[str]

    argument_types: ClassVar[Mapping[str, Any]] = {}
    """Types by name of the attribute, as ``converted_value`` takes them."""

    failing_methods: ClassVar[Sequence[str]] = ("execute", "execute_complete")
    """Methods that Airflow calls; before Airflow 3.3, their errors fail the task at once if a retry cannot help."""

    fails_fast: bool
    """Whether an error that a retry cannot help fails the task at once, where Airflow has no retry policies."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in () if HAS_RETRY_POLICIES else cls.failing_methods:
            if name in vars(cls):
                setattr(cls, name, failing_fast(vars(cls)[name]))

    if not HAS_RETRY_POLICIES:

        @failing_fast
        def render_template_fields(self, *args: Any, **kwargs: Any) -> Any:
            """Render as every operator does, but fail without a retry: an argument that renders wrongly does so in each try."""
            return super().render_template_fields(*args, **kwargs)  # type: ignore[misc]

    def __init__(self, *, retry_policy: RetryPolicy | None = DEFAULT, **kwargs: Any) -> None:
        _refuse_unknown(type(self), kwargs)
        super().__init__(**policy_arguments(retry_policy), **kwargs)
        self.fails_fast = retry_policy is not None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _MEANINGS_OF_NONE and value is None and vars(self).get(name) is not None:
            raise self.invalid(_nothing(name, *_MEANINGS_OF_NONE[name]))
        kind = self.argument_types.get(name)
        if kind is not None and not _is_of_run(value):
            value = converted_value(type(self).__name__, name, value, kind)
        own = vars(self).get("template_fields")
        if own is not None and name not in own and name in type(self).template_fields and _is_given(value):
            super().__setattr__("template_fields", [*own, name])
        super().__setattr__(name, value)

    def check_arguments(self) -> None:
        """Raise ``InvalidStatementError`` for arguments that contradict each other, as far as they are known."""

    def render_template(self, content: Any, context: Context, jinja_env: Any = None, seen_oids: set[int] | None = None) -> Any:
        """Render as every operator does, but strings stay strings in native DAGs; mask secrets wherever Airflow shows them."""
        environment = text_environment(self, jinja_env) if isinstance(content, str) else None
        if environment is None:
            rendered = super().render_template(content, context, jinja_env, seen_oids)  # type: ignore[misc]  # of a mixin
        else:
            rendered = rendered_text(content, context, environment)
        mask_exposed(rendered)
        return rendered

    def refuse_lost_members(self, given: Any, rendered: Any) -> None:
        """Raise ``InvalidStatementError`` if rendering has turned a field that must not be left out into None."""
        for name, wanted, meaning in _lost(given, rendered):
            raise self.invalid(_nothing(name, wanted, meaning))

    @classmethod
    def invalid(cls, detail: str) -> InvalidStatementError:
        """The error for invalid arguments."""
        return InvalidStatementError(statement=getattr(cls, "custom_operator_name", cls.__name__), detail=detail)


def without_run(operator: Operator) -> Operator:
    """The operator, copied with ``LATER`` in place of the results of other tasks if it has any."""
    later = [name for name in operator.template_fields if _is_of_run(getattr(operator, name))]  # type: ignore[attr-defined]
    if not later:
        return operator
    known = copy(operator)
    known.__dict__.update(dict.fromkeys(later, LATER))
    return known


def _lost(given: Any, rendered: Any) -> Iterator[tuple[str, str, str]]:
    """The fields, at any depth, that rendering turned into None: name, what was expected, what None would mean."""
    if is_statement_value(given) and type(rendered) is type(given):
        if isinstance(given, TableSource) and _point_of(rendered) is None and (name := _point_of(given)):
            yield name, "a version or a time", "the latest version"
        for name in (field.name for field in fields(given)):
            one, other = getattr(given, name), getattr(rendered, name)
            meaning = _MEANINGS_OF_NONE.get(name) or _MEANINGS_IN_VALUES.get((given.type_name, name))
            if meaning and one is not None and other is None:
                yield name, *meaning
            yield from _lost(one, other)
    elif isinstance(given, Mapping) and isinstance(rendered, Mapping):
        for name in given.keys() & rendered.keys():
            yield from _lost(given[name], rendered[name])
    elif isinstance(given, list | tuple) and isinstance(rendered, list | tuple):
        for one, other in zip(given, rendered, strict=False):
            yield from _lost(one, other)


def _point_of(source: TableSource) -> str | None:
    """The field that selects the version; None for the latest version."""
    return next((name for name in ("version", "timestamp") if getattr(source, name) is not None), None)


def _nothing(name: str, wanted: str, meaning: str) -> str:
    """Detail of the error for an argument that rendered to None."""
    return f"{name} must render to {wanted}, but its template, or the task it comes from, gave None, which would mean {meaning}"


def _is_given(value: Any) -> bool:
    return not (value is None or (isinstance(value, str | Sequence | Mapping) and len(value) == 0))


def _is_of_run(value: Any) -> bool:
    """Whether the value, or a part of it, is only known when the task runs."""
    return callable(value) or _is_resolved_later(value) or next(XComArg.iter_xcom_references(value), None) is not None


def _is_resolved_later(value: Any) -> bool:
    """Whether the value or a member of it is an argument of a mapped task group or of the DAG; these refer to no task."""
    if isinstance(value, Mapping):
        return any(map(_is_resolved_later, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_is_resolved_later, value))
    return hasattr(value, "iter_references")


def _refuse_unknown(operator: Any, arguments: Iterable[str]) -> None:
    """Raise ``InvalidStatementError`` for an argument that an operator does not take."""
    known = _parameters(operator)
    for name in arguments:
        if name not in known and not name.startswith("_"):
            raise operator.invalid(f"unexpected argument {name!r}{_meant(operator, name)}")


def _meant(operator: Any, name: str) -> str:
    """The end of an error's text: the argument that was probably meant, or else the operator's own arguments.

    Arguments of Airflow's base class are never suggested: among so many, one resembles anything, as ``pre_execute`` does
    ``predicate``.
    """
    ours = [base for base in operator.__mro__ if not base.__module__.startswith("airflow.sdk.")]
    special = takewhile(lambda base: CheckedArguments not in base.__bases__, ours)
    own = _parameters_of(special) or _parameters_of(ours[:1])
    own = sorted({*own, *({"table"} & {*_parameters(operator)})})
    return nearest(name, own) or nearest(name, _parameters_of(ours)) or f"; its own arguments are {', '.join(own)}"


@cache
def _parameters(operator: Any) -> Iterable[str]:
    """The names of all arguments that an operator takes."""
    return _parameters_of(operator.__mro__)


def _parameters_of(classes: Iterable[Any]) -> list[str]:
    made_by = (vars(base)["__init__"] for base in classes if inspect.isfunction(vars(base).get("__init__")))
    return sorted({name for make in made_by for name in inspect.signature(make).parameters} - {"self", "args", "kwargs"})
