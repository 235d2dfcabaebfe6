"""Writing the rows that a Python function returns, as a task."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from airflow.sdk import Context

from airflow_delta.core.statements import UPSERT, Clause, MergeStatement, PythonSource, Source, Statement, TableSource
from airflow_delta.core.statements.fields import is_template
from airflow_delta.core.statements.function_text import check_call
from airflow_delta.core.statements.publish import STAGED_KEY
from airflow_delta.hooks.native_templates import NativeArgument, text_environment
from airflow_delta.operators.written_rows import DeltaWrittenRowsOperator, given_for_writes

_OF_RUN = frozenset({"ds", "ds_nodash", "run_id", "ts", "ts_nodash", "ts_nodash_with_tz"})
"""Parameters that are filled from the run, as in other TaskFlow functions: the strings of Airflow's context."""

_NOT_IN_THE_JOB = (
    "is a part of Airflow's context, which the Spark job does not have; pass what the function needs of it by templates, such "
    "as start='{{ data_interval_start }}'; of a run come by themselves"
)
_RESULT = frozenset({"table", "version", "read_version", "operation", "committed"})
"""Keys in the return value of every operator of this package that commits."""


class DeltaPythonOperator(DeltaWrittenRowsOperator):
    """Write or merge the rows of the DataFrame that a Python function returns, as one commit.

    The function runs in the driver of the Spark job, as ``function(spark, **op_kwargs)``. Arguments that are tables or files
    arrive as DataFrames, each table at one version. The return value of another task of this package arrives as the table that
    the task wrote, at the version of its commit or with the commit that it has staged. All other arguments arrive as they are::

        def daily(spark, flights, day):
            from pyspark.sql import functions as F

            return flights.where(F.col("day") == day).groupBy("day", "carrier").agg(F.avg("delay").alias("delay"))

        DeltaPythonOperator(
            task_id="daily",
            table="/lake/daily",
            python_callable=daily,
            op_kwargs={"flights": TableSource("/lake/flights"), "day": "{{ ds }}"},
            mode="replace_where",
            replace_where="day = DATE'{{ ds }}'",
        )

    The job gets the function's source code: it must import what it needs in its body, and names that are defined outside of it
    are refused when the DAG is parsed. It may be called again after a conflict, and is called again in each retry that finds no
    commit, so its side effects should be harmless when repeated. An error in the function fails the task at once, with file and
    line.

    Takes ``mode``, ``replace_where``, ``partition_by``, ``cluster_by``, ``merge_schema``, ``overwrite_schema``,
    ``by_position``, ``expect``, ``properties``, ``txn``, ``user_metadata``, ``dry_run`` and ``publish``, too
    (``help(airflow_delta.operators.written_rows.DeltaWrittenRowsOperator)``). With ``on`` the rows are merged, and only
    ``expect``, ``dry_run`` and ``publish`` of these apply.

    Args:
        table: URI of the table's root (templated).
        python_callable: The function, whose first parameter is ``spark``; or ``"module:function"``, which Spark's driver must
            be able to import, for example from ``py_files``.
        op_kwargs: The function's other arguments, by name (templated): tables, files, and values that JSON has. Parameters
            called ``ds``, ``ds_nodash``, ``run_id``, ``ts``, ``ts_nodash`` and ``ts_nodash_with_tz`` that are left out get the
            run's values.
        on: Merge the rows instead of writing them: the condition by which they match, as Spark SQL over ``target`` and
            ``source`` (templated).
        clauses: What happens to rows that match and to those that do not, in order (templated). Default: update and insert.
            Only with ``on``.
        schema_evolution: Add columns that only the rows have to the table (templated). Only with ``on``.
    """

    template_fields: Sequence[str] = (
        *DeltaWrittenRowsOperator.template_fields,
        *("op_kwargs", "on", "clauses", "schema_evolution"),
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"op_kwargs": "py"}
    shallow_copy_attrs: Sequence[str] = ("python_callable",)
    argument_types: ClassVar[Mapping[str, Any]] = {**DeltaWrittenRowsOperator.argument_types, "schema_evolution": bool}

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any] | str,
        op_kwargs: Mapping[str, Any] | None = None,
        on: str | None = None,
        clauses: Sequence[Clause] | None = None,
        schema_evolution: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.python_callable = python_callable
        self.op_kwargs: Any = {} if op_kwargs is None else op_kwargs
        self.on = on
        self.clauses = clauses
        self.schema_evolution: Any = schema_evolution
        self._function = PythonSource.without_arguments(python_callable)
        if not isinstance(python_callable, str) and isinstance(self.op_kwargs, Mapping):
            self.op_kwargs = {**_of_run(python_callable, self.op_kwargs), **self.op_kwargs}
            if asked := _of_context(python_callable, self.op_kwargs):
                raise self.invalid(f"{asked[0]} {_NOT_IN_THE_JOB} {', '.join(sorted(_OF_RUN))}")
            check_call(python_callable, self.op_kwargs)

    def render_template(self, content: Any, context: Context, jinja_env: Any = None, seen_oids: set[int] | None = None) -> Any:
        """Render as every operator does; in native DAGs, numbers and flags reach the function with their types."""
        if content is self.op_kwargs and (environment := text_environment(self, jinja_env)) is not None:
            content = NativeArgument.within(content, environment)
        return super().render_template(content, context, jinja_env, seen_oids)

    def rows(self) -> Source:
        """The function and its arguments."""
        given = self.op_kwargs
        if not isinstance(given, Mapping) and not is_template(given):
            raise self.invalid(f"op_kwargs must be a mapping of names, found {given!r:.100}")
        arguments = given if is_template(given) else {name: _argument(value) for name, value in given.items()}
        return replace(self._function, arguments=arguments)

    def statement(self) -> Statement:
        """The statement, made from the rendered arguments."""
        if self.on is None:
            if self.clauses is not None or self.schema_evolution is True:
                raise self.invalid(
                    "clauses and schema_evolution are those of a merge, which needs on; a write takes merge_schema"
                )
            return super().statement()
        if of_write := given_for_writes(self):
            raise self.invalid(f"with on the rows are merged, and a merge does not take {', '.join(of_write)}")
        return MergeStatement(
            table=self.table,
            source=self.rows(),
            on=self.on,
            clauses=UPSERT if self.clauses is None else self.clauses,  # type: ignore[arg-type]  # converted by the statement
            schema_evolution=self.schema_evolution,
            expect=self.expect,  # type: ignore[arg-type]  # likewise
            dry_run=self.dry_run,
            publish=self.publish,
        )


def _of_run(function: Callable[..., Any], given: Mapping[str, Any]) -> Mapping[str, str]:
    """Templates for the function's parameters that the run fills."""
    parameters = inspect.signature(function).parameters.values()
    required = {parameter.name for parameter in parameters if parameter.default in (parameter.empty, None)}
    return {name: f"{{{{ {name} }}}}" for name in sorted(_OF_RUN & required - given.keys())}


def _of_context(function: Callable[..., Any], given: Mapping[str, Any]) -> list[str]:
    """Missing arguments that other TaskFlow functions would get from Airflow."""
    parameters = inspect.signature(function).parameters.values()
    missing = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    return [name for name in missing if name not in given and name in {*Context.__annotations__, "context"}]


def _argument(value: Any) -> Any:
    """The argument for the source; the result of a task of this package becomes its table, at the version of its commit."""
    if isinstance(value, Mapping) and value.keys() >= _RESULT:
        details = value.get("details")
        staged = details.get(STAGED_KEY) if isinstance(details, Mapping) else None
        version = value["version"] if staged is None else None
        return TableSource(value["table"], version=version, staged=staged)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray) else value
