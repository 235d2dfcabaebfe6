"""``@task.delta``: a Python function as a task that writes the rows which the function returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import DecoratedOperator, TaskDecorator, task_decorator_factory

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.function_text import check_parameters
from airflow_delta.operators.python import DeltaPythonOperator


class _DeltaDecoratedOperator(DecoratedOperator, DeltaPythonOperator):  # type: ignore[misc]  # bases differ in python_callable
    """The task that a decorated function becomes when it is called; the call's arguments are ``op_kwargs``."""

    custom_operator_name = "@task.delta"
    template_fields: Sequence[str] = DeltaPythonOperator.template_fields
    template_fields_renderers: ClassVar[dict[str, str]] = DeltaPythonOperator.template_fields_renderers
    xcom_push: ClassVar[None] = None
    """Airflow 3.0 reads this attribute of an operator without using it, and fails if an operator of its SDK lacks it."""

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        check_parameters(python_callable)
        called = partial(python_callable, None)  # without the first parameter, spark
        named = _named(called, op_args or (), op_kwargs or {})
        super().__init__(
            python_callable=called,
            op_kwargs=named,
            kwargs_to_upstream={"python_callable": python_callable, "op_kwargs": named},
            **kwargs,
        )


def delta_task(
    python_callable: Callable[..., Any] | None = None, *, multiple_outputs: bool = False, **kwargs: Any
) -> TaskDecorator:
    """Make a function ``(spark, …) -> DataFrame`` a task that writes or merges its rows into a Delta table, as one commit.

    ::

        @task.delta(table="/lake/daily", mode="overwrite", expect="delay > -120")
        def daily(spark, flights, day):
            return flights.where(flights.day == day)

        daily(flights=TableSource("/lake/flights"), day="{{ ds }}")

    Args:
        python_callable: The function, whose first parameter is ``spark``.
        multiple_outputs: Also push each member of the result, such as ``version``, as an XCom.
        **kwargs: Arguments of ``DeltaPythonOperator``.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=_DeltaDecoratedOperator,
        **kwargs,
    )


def _named(function: Callable[..., Any], args: Collection[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments of a call by name."""
    if not args:
        return kwargs
    try:
        signature = inspect.signature(function)
        signature.bind_partial(*args, **kwargs)
        return {**signature.bind_partial(*args).arguments, **kwargs}
    except TypeError as error:
        raise InvalidStatementError(statement="@task.delta", detail=str(error)) from error
