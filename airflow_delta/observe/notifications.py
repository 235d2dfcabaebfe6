"""Alerts on commits that lost a race."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any

from airflow.providers.common.compat.sdk import BaseNotifier
from airflow.sdk import Context

from airflow_delta.core.errors import DeltaError, InvalidStatementError
from airflow_delta.core.statements.fields import shortened
from airflow_delta.core.statements.validation import members, require_text, require_type, texts
from airflow_delta.hooks.airflow_features import run_in_thread
from airflow_delta.hooks.conflict_report import CONFLICT_KEY, conflict_report
from airflow_delta.hooks.retry_policy import LOST_RACES

Delegate = Callable[[Any], Any]
"""A notifier, or any other function that takes the context."""

ErrorFilter = type[DeltaError] | str
"""An error class, or the code of an error."""

MESSAGE = "{{ ti.dag_id }}.{{ ti.task_id }}, run {{ ti.run_id }}, try {{ ti.try_number }}: {{ delta_conflict.text }}"


class DeltaConflictNotifier(BaseNotifier):
    """Calls other notifiers if a failure is a commit conflict; Airflow's callbacks are called on every failure.

    Use it as ``on_failure_callback``, or as ``on_retry_callback`` to be notified even if the task will be retried:

        DeltaMergeOperator(
            ...,
            on_failure_callback=DeltaConflictNotifier(then=SlackNotifier(text="{{ delta_conflict.message }}")),
        )

    The called notifiers find ``delta_conflict`` in their context and templates: ``message`` (this notifier's text), ``code``,
    ``text``, ``table``, ``read_version``, ``winning_version``, ``winning_operation``, ``winning_run`` (``dag_id``, ``task_id``,
    ``run_id``; empty if the winning commit was not made by a task of this package), ``winning_job``, ``rule`` (the name of the
    conflict rule), ``path``, ``partition``.

    Args:
        then: Notifiers, or functions that take the context; all are called, even if one of them fails.
        only: The errors to notify of, by class or by code. Default: commit conflicts and exhausted commit attempts.
        tables: The tables to notify of, as glob patterns for their URIs or the last parts of these, such as ``s3://lake/*`` or
            ``flights`` (templated). Default: all.
        min_try: The first try number to notify of.
        message: The text (templated, with ``delta_conflict``).

    Raises:
        InvalidStatementError: ``only`` is empty or has something that is not an error of this package, ``then`` has something
            that cannot be called, ``tables`` or ``message`` is not a string, or ``min_try`` is not a number.
    """

    template_fields: Sequence[str] = ("tables", "message")

    def __init__(
        self,
        *,
        then: Delegate | Iterable[Delegate],
        only: ErrorFilter | Iterable[ErrorFilter] = LOST_RACES,
        tables: str | Iterable[str] | None = None,
        min_try: int = 1,
        message: str = MESSAGE,
        context: Context | None = None,
    ) -> None:
        super().__init__(*(() if context is None else (context,)))  # before Airflow 3.1, it takes no context
        self.then = (then,) if callable(then) else tuple(then) if isinstance(then, Iterable) else ()
        if not self.then or not all(map(callable, self.then)):
            detail = f"then must be a notifier, or a function of the context, or several of them, found {shortened(then)}"
            raise InvalidStatementError(statement="DeltaConflictNotifier", detail=detail)
        errors = (only,) if isinstance(only, str | type) else members("DeltaConflictNotifier", "only", _in_any_order(only))
        self.only = _checked(errors)
        self.tables = None if tables is None else texts("DeltaConflictNotifier", "tables", _in_any_order(tables))
        require_type("DeltaConflictNotifier", "min_try", min_try, int)
        self.min_try = min_try
        require_text("DeltaConflictNotifier", "message", message)
        self.message = message

    def render_template_fields(self, context: Context, jinja_env: Any = None) -> None:
        """Do nothing: the fields are rendered for each conflict, and only for conflicts."""

    def notify(self, context: Context) -> None:
        """Call the notifiers for the failure in the context, if it passes the filters.

        Raises:
            ExceptionGroup: Some notifiers failed; the others were called.
        """
        error = context.get("exception")
        if not isinstance(error, DeltaError) or not self._passes_filters(error, context):
            return
        report = conflict_report(error)
        extended: Any = {**context, CONFLICT_KEY: report}
        report["message"] = self._rendered(self.message, extended)
        failures = []
        for delegate in self.then:
            try:
                # A notifier renders its templates in place; they must be unrendered for the next conflict.
                copy.copy(delegate)(extended)
            except Exception as failure:  # noqa: BLE001 - delegates raise whatever they like
                failures.append(failure)
        if failures:
            raise ExceptionGroup("some notifiers of a conflict failed", failures)

    async def async_notify(self, context: Context) -> None:
        """As ``notify``, in a thread, because notifiers may block."""
        await run_in_thread(self.notify, context)

    def _passes_filters(self, error: DeltaError, context: Context) -> bool:
        by_error = any(error.code == kind if isinstance(kind, str) else isinstance(error, kind) for kind in self.only)
        return by_error and context["ti"].try_number >= self.min_try and self._is_of_table(error, context)

    def _is_of_table(self, error: DeltaError, context: Context) -> bool:
        if self.tables is None:
            return True
        table = f"/{error.attributes().get('table', '')}".rstrip("/")
        patterns = (self._rendered(pattern, context) for pattern in self.tables)
        return any(fnmatchcase(table, f"*/{pattern}".rstrip("/")) for pattern in patterns)

    def _rendered(self, text: str, context: Context) -> str:
        """A rendered template, as a string even in a DAG with ``render_template_as_native_obj``."""
        dag = context.get("dag")
        environment = self.get_template_env() if dag is None else dag.get_template_env(force_sandboxed=True)
        rendered: str = environment.from_string(text).render(context)
        return rendered


def _in_any_order(values: Any) -> Any:
    """A set as a list; the order does not matter here."""
    return list(values) if isinstance(values, set | frozenset) else values


def _checked(only: tuple[ErrorFilter, ...]) -> tuple[ErrorFilter, ...]:
    if not only:
        raise InvalidStatementError(statement="DeltaConflictNotifier", detail="only must not be empty")
    for kind in only:
        is_error = isinstance(kind, type) and issubclass(kind, DeltaError)
        if is_error or (isinstance(kind, str) and kind in _codes()):
            continue
        meant = get_close_matches(str(kind).upper(), _codes(), n=1)
        hint = f"; did you mean {meant[0]!r}?" if meant else ""
        detail = f"only must hold errors of this package or their codes, found {shortened(kind)}{hint}"
        raise InvalidStatementError(statement="DeltaConflictNotifier", detail=detail)
    return only


def _codes() -> frozenset[str]:
    """The codes of all errors; importing a module of errors registers its codes."""
    for room in ("catalogs", "core", "hooks", "jobs", "shipping", "spark", "watch"):
        import_module(f"airflow_delta.{room}.errors")
    return DeltaError.codes()
