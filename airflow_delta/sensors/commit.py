"""Waiting for a commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.sdk import Context

from airflow_delta.catalogs.errors import TableNameNotFoundError
from airflow_delta.core.foreign_values import printable
from airflow_delta.core.statements.fields import is_template, shortened
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.core.statements.validation import require_text, texts
from airflow_delta.hooks.checked_arguments import without_run
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.errors import StateFileError
from airflow_delta.sensors.wait import DeltaWaitSensor
from airflow_delta.watch.commit_filter import CommitFilter
from airflow_delta.watch.commit_window import CommitWindow
from airflow_delta.watch.waits import CommitWait

if TYPE_CHECKING:
    from airflow_delta.watch.commit_watch import CommitWatch

_BEGINNINGS = ("min_version", "after_version", "after_timestamp", "during", "since", "run_of", "fresh_within")
"""The arguments that define the commit from which the sensor looks; exactly one must be given."""

_CONDITIONS = ("operations", "partitions", "data_change_only", "min_rows")
"""The arguments that filter the commits from there on."""


class DeltaCommitSensor(DeltaWaitSensor):
    """Wait for a commit to a Delta table, and return its version. A missing table is waited for.

    Give exactly one beginning: ``min_version``, ``after_version``, ``after_timestamp``, ``during``, ``since``, ``run_of`` or
    ``fresh_within``. Without further conditions, any commit fulfills the wait, and the table's latest version is returned (with
    ``during``, the latest version of the interval). With ``operations``, ``partitions``, ``data_change_only`` or ``min_rows``,
    the commits from there on are read, each of them once, even over retries and reschedules; the version of the commit that
    fulfills the wait is returned.

    If commits were cleaned up before the sensor could read them, and no remaining commit fulfills the wait, the task fails with
    ``CommitsCleanedUpError``, because the awaited commit may be among them: the sensor polls too seldom, or begins too early. A
    wait for a version alone is fulfilled by a checkpoint of a later version, too.

    Args:
        table: URI of the table's root, its path below the connection's table root, or its name in the connection's catalog
            (templated).
        delta_conn_id: The ``delta`` connection (templated).
        min_version: Wait for this version or a later one (templated).
        after_version: Wait for a version after this one (templated).
        after_timestamp: Wait for a commit later than this time (templated), such as ``"{{ data_interval_start }}"``: a datetime
            (UTC if it has no time zone), ISO 8601 text or milliseconds since the epoch. The time of a commit is its in-commit
            timestamp if the table has these, else the modification time of the commit's file.
        during: Wait for a commit in an interval (templated) that includes its start, but not its end, such as the DAG run's
            data interval: ``("{{ data_interval_start }}", "{{ data_interval_end }}")``. Once a later commit exists and no
            commit in the interval fulfills the wait, the task fails with ``CommitWindowPassedError``.
        since: ``"first_poke"`` waits for a commit after the first poke (templated). It misses commits before that poke; use
            ``after_timestamp`` if they count. Retries and reschedules keep the version of the first poke, a cleared task takes
            a new one.
        run_of: Wait for the commit of a DAG run (templated): ``{"dag_id": ..., "logical_date": ...}`` or ``run_id``, plus
            ``task_id`` and ``map_index`` if the run makes several commits. A staged commit belongs to the run that staged it
            and to the run that published it. All commits in the log are searched, from the oldest on: if the run was cleared,
            or there are several runs with the logical date, the first commit is found. A task that commits nothing, such as a
            MERGE without matches, is never found.
        fresh_within: Wait until the table's data is at most this old (templated), such as ``"2h"``, ``"90 min"``, ``"1 day 12
            hours"`` or a timedelta: until a commit that changes rows was made within that time before a poke. With a short
            ``timeout``, it checks for staleness. Not together with ``min_rows``.
        operations: Wait for one of these operations (templated), by the names in Delta's commit information, such as
            ``"MERGE"``.
        partitions: Wait for a commit that adds or removes files in partitions for which this predicate holds (templated), such
            as ``"day = DATE'{{ ds }}'"``.
        data_change_only: Skip commits that change no rows, such as those of OPTIMIZE and VACUUM (templated).
        min_rows: Wait until the matching commits together have inserted, updated or deleted this many rows (templated), by
            their metrics; for a commit without metrics, the rows of the files that it added count.
        deferrable: Wait in the triggerer, without a worker (templated).
        retry_policy: Which errors are retried. Default: those that another try may overcome.
    """

    template_fields: Sequence[str] = (
        *DeltaWaitSensor.template_fields,
        *_BEGINNINGS,
        "operations",
        "partitions",
        "data_change_only",
        "min_rows",
    )
    argument_types: ClassVar[Mapping[str, Any]] = {
        **DeltaWaitSensor.argument_types,
        "min_version": int | None,
        "after_version": int | None,
        "since": Literal["first_poke"] | None,
        "data_change_only": bool,
        "min_rows": int | None,
    }

    def __init__(
        self,
        *,
        min_version: int | str | None = None,
        after_version: int | str | None = None,
        after_timestamp: datetime | str | int | None = None,
        during: Sequence[datetime | str | int] | None = None,
        since: str | None = None,
        run_of: Mapping[str, Any] | None = None,
        fresh_within: timedelta | str | None = None,
        operations: str | Sequence[str] = (),
        partitions: str | None = None,
        data_change_only: bool | str = False,
        min_rows: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.min_version: Any = min_version
        self.after_version: Any = after_version
        self.after_timestamp = after_timestamp
        self.during = during
        self.since: Any = since
        self.run_of = run_of
        self.operations = operations
        self._is_for_any_operation = operations in (None, (), [])
        self.partitions = partitions
        self.data_change_only: Any = data_change_only
        self.min_rows: Any = min_rows
        self.fresh_within: Any = fresh_within
        self._begins = [name for name in _BEGINNINGS if getattr(self, name) not in (None, {})]
        self._has_missed_name = False

    def check_arguments(self) -> None:
        """Refuse a wait without a beginning or with several, and a wait that no commit can fulfill.

        Raises:
            InvalidStatementError: The arguments do not define a valid wait.
        """
        super().check_arguments()
        if len(self._begins) != 1:
            given = f", not {' and '.join(self._begins)}" if self._begins else ""
            raise self.invalid(f"give exactly one of {', '.join(_BEGINNINGS)}{given}")
        if self.fresh_within is not None and self.min_rows is not None:
            raise self.invalid(
                "fresh_within and min_rows exclude each other: rows of the last hours would have to be taken back"
            )
        known = without_run(self)
        names = ("min_version", "after_version", "min_rows", "run_of", "during", "after_timestamp", "fresh_within")
        if not any(_has_template(getattr(known, name)) for name in names):
            known.requested_wait()
        elif isinstance(known.run_of, Mapping):
            CommitFilter.of(run=known.run_of)  # refuses keys that do not identify a run

    def begin(self, context: Context) -> CommitWatch:
        """The watch, from the stored progress of this task run on, or else from the beginning that the arguments define."""
        from airflow_delta.watch.commit_watch import CommitWatch, head_version  # noqa: PLC0415 - DAG files do not need it

        wait, thorough = replace(self.requested_wait(), is_since_poke=self.since is not None), True
        try:
            store = DeltaHook(self.delta_conn_id).log_store(self.table)
        except TableNameNotFoundError:
            self._poke_without_name(context, wait)
            raise
        progress = self._loaded(context) if self._is_stored(wait) else {}
        if progress:
            wait = replace(wait, after=progress["after"], rows=progress["rows"])
        elif self.since is not None:
            after = NO_TABLE if self._has_missed_name else head_version(store)
            wait, thorough = replace(wait, after=after), False
            self.progress(context).save(wait.progress)
        given = [*self._begins, *(name for name in _CONDITIONS if getattr(self, name))]
        requested = printable(", ".join(f"{name}={getattr(self, name)!r}" for name in given))
        self.log.info("Waiting for a commit after version %s of %s (%s)", wait.after, self.table, requested)
        return CommitWatch(store, wait, thorough=thorough)

    def _poke_without_name(self, context: Context, requested: CommitWait) -> None:
        """For ``since``: store that the first poke found no table, so that the table's first commit fulfills the wait."""
        if self.since is None or self._has_missed_name:
            return
        try:
            progress = self.progress(context)
        except TableNameNotFoundError as missing:
            detail = "there is no table of that name yet, and nothing is created before it is there"
            raise StateFileError(place=self.table, detail=detail) from missing
        if not progress.load():
            progress.save(requested.progress)
        self._has_missed_name = True

    def _is_stored(self, requested: CommitWait) -> bool:
        """Whether progress has to be kept between the processes of this task run."""
        return self.since is not None or requested.window is not None or not requested.is_for_any

    def _loaded(self, context: Context) -> Mapping[str, int]:
        try:
            return self.progress(context).load()
        except Exception as error:
            if self.since is not None:
                raise
            self.log.info("the commits are read from the beginning: %s", printable(str(error)))
            return {}

    def question(self) -> Any:
        """The requested wait as JSON values."""
        return [self.since, self.requested_wait().to_json()]

    def requested_wait(self) -> CommitWait:
        """The wait that the arguments define; with ``since="first_poke"``, still without the version of the first poke.

        Raises:
            InvalidStatementError: An argument is invalid, or holds a template that was not rendered.
        """
        begin = self._begins[0]
        value = getattr(self, begin)
        if _has_template(value) or is_template(self.min_rows):
            raise self.invalid(f"{begin} and min_rows hold a template that was not rendered")
        for name, least in (("min_version", NO_TABLE), ("min_rows", 1)):
            number = getattr(self, name)
            if number is not None and number < least:
                raise self.invalid(f"{name} must be at least {least}, found {number}")
        after = {"min_version": lambda: max(value - 1, NO_TABLE), "after_version": lambda: max(value, NO_TABLE)}
        windows = {
            "after_timestamp": CommitWindow.after,
            "during": CommitWindow.during,
            "fresh_within": CommitWindow.lately,
        }
        if value is None and begin not in windows:
            raise self.invalid(f"the template of {begin} must render to a value, but rendered to None")
        if begin == "run_of" and not (value and isinstance(value, Mapping)):
            detail = f"run_of must name a run, such as {{'dag_id': ..., 'logical_date': ...}}, found {shortened(value)}"
            raise self.invalid(detail)
        if self.partitions is not None:
            require_text(type(self).__name__, "partitions", self.partitions)
        operations = () if self.operations is None else self.operations
        wanted = CommitFilter.of(
            operations=texts(type(self).__name__, "operations", operations, may_be_empty=self._is_for_any_operation),
            partitions=self.partitions,
            data_change_only=self.data_change_only or begin == "fresh_within",
            run=self.run_of,
        )
        return CommitWait(
            after=after[begin]() if begin in after else NO_TABLE,
            wanted=wanted,
            min_rows=self.min_rows,
            window=windows[begin](value) if begin in windows else None,
        )


def _has_template(value: Any) -> bool:
    """Whether the value, or a member of it, is a template that has not been rendered."""
    if isinstance(value, Mapping):
        return any(map(is_template, value.values()))
    return any(map(is_template, value if isinstance(value, list | tuple) else (value,)))
