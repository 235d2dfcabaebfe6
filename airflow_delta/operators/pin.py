"""Pinning versions of tables as a task, so that a backfill can be repeated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

from airflow.sdk import Context, get_current_context

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.foreign_values import printable
from airflow_delta.core.statements import AsOf, PinnedTable, PinStatement, Statement, Version
from airflow_delta.core.statements.fields import is_template, shortened
from airflow_delta.hooks.checked_arguments import without_run
from airflow_delta.hooks.conflict_report import CONFLICT_KEY
from airflow_delta.hooks.pins import PIN_ID, digest_of, keep_pin, kept_pin
from airflow_delta.hooks.state_file import task_state
from airflow_delta.hooks.task_token import StateStore
from airflow_delta.hooks.xcoms import push_xcom
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.observe.links import HISTORY_KEY
from airflow_delta.observe.report import REPORT_KEY
from airflow_delta.operators.core import DeltaCoreOperator, Engine

CONF_KEY = "delta_versions"
"""Member of a DAG run's ``conf``: version to pin, by alias or by the table as the DAG writes it."""

_TAKEN = {PIN_ID, CONFLICT_KEY, HISTORY_KEY, REPORT_KEY, "delta_version", "return_value"}
"""Keys of the task's other XComs, which no alias may have."""

_HOUR = timedelta(hours=1)


class DeltaPinOperator(DeltaCoreOperator):
    """Decide once for a DAG run which version of each table it reads.

    As the first task of a DAG that is to be backfilled::

        pin = DeltaPinOperator(
            task_id="pin",
            tables={"orders": "s3://lake/orders", "rates": "s3://lake/rates"},
            as_of={"orders": ProducedBy(dag_id="orders", task_id="merge", logical_date="{{ logical_date }}")},
        )
        pin >> DeltaMergeOperator(source="s3://lake/orders", source_version=pin.version("orders"), ...)

    Each version is an XCom under its alias. The return value holds all pins by alias: ``table``, ``version`` and ``timestamp``
    (when the version was committed, in milliseconds since the epoch).

    Tables that are pinned at their latest versions all had these versions at one moment. Tables that are pinned at the same
    ``Timestamp`` have the versions that were the latest then, by the timestamps of their commits.

    Retries and cleared tasks find the same versions again, even a year later; the task fails if the log no longer has a
    version. If ``tables`` or ``as_of`` have changed, the versions are resolved anew.

    Until the DAG run has ended, vacuums and log cleanups by this package (not by other engines) keep the files that the
    versions need: the pin is a small file in ``_airflow_delta/pins`` below each table. After the run has ended, the next vacuum
    by a task deletes it; otherwise it expires.

    ``dag_run.conf["delta_versions"]`` overrides ``as_of``: versions by alias or table, such as ``{"orders": 17}``, for example
    from ``airflow backfill create --dag-run-conf``.

    Args:
        tables: Tables by alias: the URI of a table's root, its path below the connection's table root, or its name in the
            connection's catalog (templated).
        as_of: ``Version(n)``, ``Timestamp(t)``, ``ProducedBy(...)``, or a mapping of aliases to these (templated). Default: the
            latest version.
        refresh: Whether a cleared task resolves and pins the versions again (templated). Default: False.
        keep_for: Time after which the pins expire.
        must_protect: Fail if a pin cannot be written below its table (templated). Default: only warn, as the table may belong
            to another team.
        engine: ``"auto"``, the default, is the worker if it can read the first table and no table has a name that only jobs can
            resolve, else Spark. If workers cannot read a table, no task notices that the run has ended, and its pin stays until
            it expires.
    """

    statement_type = PinStatement
    template_fields: Sequence[str] = (*DeltaCoreOperator.template_fields, "tables", "as_of", "refresh", "must_protect")
    argument_types: ClassVar[Mapping[str, Any]] = {**DeltaCoreOperator.argument_types, "refresh": bool, "must_protect": bool}

    def __init__(
        self,
        *,
        tables: Mapping[str, str],
        as_of: AsOf | Mapping[str, AsOf] | None = None,
        refresh: bool | str = False,
        keep_for: timedelta = timedelta(days=30),
        must_protect: bool | str = False,
        engine: Engine = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(table="", engine=engine, **kwargs)
        self.tables = tables
        self.as_of = as_of
        self.refresh: Any = refresh
        self.keep_for = keep_for
        self.must_protect: Any = must_protect

    def version(self, alias: str) -> str:
        """A template for the version pinned under an alias, for arguments such as ``source_version`` of later tasks.

        For a task in a mapped task group, only tasks of that group can use it: each gets the version pinned for its map index.
        """
        if isinstance(self.tables, Mapping) and alias not in self.tables:
            detail = f"the task {self.task_id} pins {', '.join(map(repr, self.tables))}, not {alias!r}"
            raise InvalidStatementError(statement="PIN", detail=detail)
        index = "" if self.get_closest_mapped_task_group() is None else ", map_indexes=ti.map_index"  # without it, all indexes
        return f"{{{{ ti.xcom_pull(task_ids='{self.task_id}', key='{alias}'{index}) }}}}"

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # upstream returns nothing
        """Return the pinned versions by alias."""
        push_xcom(context, PIN_ID, kept_pin(self._state(context)).id)
        return super().execute(context)

    def statement(self) -> Statement:
        """The tables to pin: at the versions that the task has pinned before, or as requested."""
        context = get_current_context()
        kept = kept_pin(self._state(context))
        tables = kept.statement_tables(self._requested(context), clear_count=context["ti"].max_tries, refresh=self.refresh)
        return PinStatement(tables=tables, id=kept.id, keep_for_hours=self.keep_for / _HOUR, must_protect=self.must_protect)

    def check_arguments(self) -> None:
        """Refuse tables that cannot be pinned, as far as they are known; the versions are only known in a run."""
        if not isinstance(self.keep_for, timedelta):
            raise self.invalid(f"keep_for must be a timedelta, found {self.keep_for!r}")
        known = without_run(self)
        if not is_template(known.tables) and not is_template(known.as_of):
            tables = [
                PinnedTable(alias=alias, table=table, as_of=as_of) for alias, table, as_of in _named(known.tables, known.as_of)
            ]
            PinStatement(tables=tables, id="known", keep_for_hours=self.keep_for / _HOUR, must_protect=self.must_protect)

    def _state(self, context: Context) -> StateStore:
        """The store of the task's pins; if it is a file, it lies below the first of the tables."""
        first = next(iter(self.tables.values()), "") if isinstance(self.tables, Mapping) else ""
        return task_state(context, self.hook, first, scratch_uri=self.scratch_uri)

    def _requested(self, context: Context) -> tuple[PinnedTable, ...]:
        chosen = (context["dag_run"].conf or {}).get(CONF_KEY) or {}
        if not isinstance(chosen, Mapping):
            detail = f"{CONF_KEY} in the run's conf must be a JSON object, found {chosen!r}"
            raise InvalidStatementError(statement="PIN", detail=detail)
        tables = [*_named(self.tables, self.as_of)]
        self._check_chosen(chosen, context)

        def requested(alias: str, table: str, as_of: AsOf | None) -> PinnedTable:
            version = chosen.get(alias, chosen.get(table))
            return PinnedTable(alias=alias, table=table, as_of=as_of if version is None else Version(version))

        return tuple(self.hook.resolve_table_uris(requested(*named)) for named in tables)

    def _check_chosen(self, chosen: Mapping[str, Any], context: Context) -> None:
        """Refuse versions for tables that no task pins: the run would read other versions than requested."""
        known = [*self.tables, *self.tables.values()]
        unknown = [name for name in chosen if name not in known]
        pins = [task for task in context["dag"].tasks if issubclass(task.operator_class, DeltaPinOperator)]
        if unknown and len(pins) == 1 and context["ti"].map_index in {None, -1}:  # else another task may pin them
            aliases = " or ".join(map(repr, self.tables))
            detail = f"{CONF_KEY} in the run's conf names {shortened(unknown[0])}, expected {aliases}"
            raise InvalidStatementError(statement="PIN", detail=f"{detail}, or a table as the DAG writes it")

    def _deliver(self, document: ResultDocument, context: Context) -> dict[str, Any]:
        pins = super()._deliver(document, context)["details"]["pins"]
        ti, store = context["ti"], self._state(context)
        keep_pin(
            store,
            replace(
                kept_pin(store),
                digest=digest_of(self._requested(context)),
                clear_count=ti.max_tries,
                versions={pin["alias"]: [pin["version"], pin["table_id"]] for pin in pins},
            ),
        )
        for pin in pins:
            self.log.info("%s is version %s of %s", pin["alias"], pin["version"], pin["table"])
            if pin["unprotected"] is not None:
                self.log.warning("Pin is not protected from VACUUM: %s", printable(pin["unprotected"]))
            push_xcom(context, pin["alias"], pin["version"])
        return {pin["alias"]: {name: pin[name] for name in ("table", "version", "timestamp")} for pin in pins}


def _named(tables: Any, as_of: Any) -> Iterator[tuple[str, str, AsOf | None]]:
    """Alias, table and requested version of each table."""
    if not isinstance(tables, Mapping):
        raise _invalid(f"tables must map aliases to tables, found {tables!r}")
    if taken := sorted(_TAKEN & tables.keys()):
        raise _invalid(f"{', '.join(taken)} cannot be an alias: the task has another XCom of this name")
    versions = as_of if isinstance(as_of, Mapping) else dict.fromkeys(tables, as_of)
    if unknown := versions.keys() - tables.keys():
        raise _invalid(f"as_of names {', '.join(sorted(unknown))}, which tables does not")
    return ((alias, table, versions.get(alias)) for alias, table in tables.items())


def _invalid(detail: str) -> InvalidStatementError:
    return InvalidStatementError(statement="PIN", detail=detail)
