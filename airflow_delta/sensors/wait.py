"""Base of the sensors: waiting for a table in the worker or in the triggerer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowSensorTimeout, AirflowSkipException, conf
from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue

from airflow_delta.catalogs.errors import TableNameNotFoundError
from airflow_delta.core.errors import DeltaError, TableNotFoundError
from airflow_delta.core.foreign_values import printable
from airflow_delta.core.statements.validation import require_text
from airflow_delta.hooks.checked_arguments import CheckedArguments, without_run
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.jobs.errors import JobFailedError
from airflow_delta.sensors.progress import StoredProgress

if TYPE_CHECKING:
    from airflow_delta.watch.watches import Watch


class DeltaWaitSensor(CheckedArguments, BaseSensorOperator):
    """Wait until a Delta table fulfills a condition, and return its version. A missing table or name is waited for.

    Of Airflow's own arguments, ``soft_fail`` skips the task on ``timeout`` and ``never_fail`` also on errors, both in the
    worker and in the triggerer; ``silent_fail`` only has an effect in the worker.

    Args:
        table: URI of the table's root, its path below the connection's table root, or its name in the connection's catalog
            (templated).
        delta_conn_id: The ``delta`` connection (templated).
        deferrable: Wait in the triggerer, without a worker (templated).
        retry_policy: Which errors are retried. Default: those that another try may overcome.
    """

    template_fields: Sequence[str] = ("table", "delta_conn_id", "deferrable")
    argument_types: ClassVar[Mapping[str, Any]] = {"delta_conn_id": str, "deferrable": bool}
    failing_methods: ClassVar[Sequence[str]] = ("execute", "resume_execution")

    def __init__(
        self,
        *,
        table: str,
        delta_conn_id: str = DeltaHook.default_conn_name,
        deferrable: bool | str = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.delta_conn_id = delta_conn_id
        self.deferrable: Any = deferrable
        self._watch: Any = None

    def check_arguments(self) -> None:
        """Refuse an empty ``table``, and in the triggerer a ``poke_interval`` that is not above 0 seconds.

        Raises:
            InvalidStatementError: One of the two is invalid.
        """
        require_text(type(self).__name__, "table", without_run(self).table)
        if self.deferrable is True and self.poke_interval <= 0:
            raise self.invalid(f"poke_interval must be more than 0 seconds in the triggerer, found {self.poke_interval}")

    @abstractmethod
    def begin(self, context: Context) -> Any:
        """The watch of this task run."""

    def progress(self, context: Context) -> StoredProgress:
        """The stored progress of this task run, kept between its processes."""
        return StoredProgress.of_task(context, DeltaHook(self.delta_conn_id), self.table, self.question())

    @abstractmethod
    def question(self) -> Any:
        """The awaited condition as JSON values: stored progress only counts for the same condition."""

    def poll(self, watch: Watch, context: Context) -> int | None:
        """The version that fulfills the wait, or None; stores the progress of the search."""
        before = watch.wait
        try:
            return watch.poll()
        finally:
            if watch.wait != before:
                try:
                    self.progress(context).save(watch.wait.progress)
                except Exception as error:  # noqa: BLE001 - progress only saves reading
                    self.log.info("a retry will read the log again: %s", printable(str(error)))

    def execute(self, context: Context) -> Any:
        """Wait in the worker or, after a first poke, in the triggerer."""
        with self._found_at_timeout():
            return self._wait(context)

    def _wait(self, context: Context) -> Any:
        if not self.deferrable:
            return super().execute(context)
        try:
            with self._never_failing():
                watch: Watch = self.begin(context)
                version = self.poll(watch, context)
        except TableNameNotFoundError:
            return super().execute(context)  # a trigger needs the table's location; the worker waits for the name
        if version is not None:
            self.log.info("Version %s of %s fulfills the wait", version, self.table)
            return version
        from airflow_delta.triggers.commit import DeltaCommitWaitTrigger  # noqa: PLC0415 - DAG files need no log

        return self.defer(
            trigger=DeltaCommitWaitTrigger(
                table=self.table,
                delta_conn_id=self.delta_conn_id,
                wait=watch.wait.to_json(),
                poll_interval=self.poke_interval,
                try_number=context["ti"].try_number,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """As in every sensor; with ``soft_fail``, Airflow skips the task if ``execute_complete`` raises one of its errors."""
        with self._found_at_timeout():
            return super().resume_execution(next_method, next_kwargs, context)

    @contextmanager
    def _found_at_timeout(self) -> Iterator[None]:
        """When the ``timeout`` ends the wait, log the table's current state; Airflow logs how long the wait was."""
        try:
            yield
        except (AirflowSensorTimeout, AirflowSkipException) as ended:
            if self._is_timeout(ended):
                try:
                    self.log.warning("The wait timed out; found: %s", printable(self.found_instead()))
                except Exception as error:  # noqa: BLE001 - the timeout must stay the task's error
                    self.log.warning("The wait timed out; the table cannot be read: %s", printable(str(error)))
            raise

    def _is_timeout(self, ended: Exception) -> bool:
        """Whether the exception is due to ``timeout``; with ``soft_fail``, that is a skip without another cause."""
        cause = ended.__cause__
        is_skip = self.soft_fail and cause is None
        return is_skip or isinstance(ended, AirflowSensorTimeout) or isinstance(cause, AirflowSensorTimeout)

    def found_instead(self) -> str:
        """The table's current state, for the log at the end of the timeout."""
        from airflow_delta.core.delta_log import DeltaLog  # noqa: PLC0415 - DAG files need no log

        try:
            [latest] = DeltaLog(DeltaHook(self.delta_conn_id).log_store(self.table)).history(limit=1)
        except TableNotFoundError:
            return f"no Delta table at {self.table}"
        operation = f" ({latest.commit_info.operation})" if latest.commit_info else ""
        moment = datetime.fromtimestamp(latest.timestamp / 1_000, UTC).isoformat(" ", "seconds")
        return f"the latest commit of {self.table} is version {latest.version}{operation}, of {moment}"

    @contextmanager
    def _never_failing(self) -> Iterator[None]:
        """With ``never_fail``, skip the task on an error, as Airflow does for ``poke``; a missing name is waited for."""
        try:
            yield
        except TableNameNotFoundError:
            raise
        except Exception as error:
            if self.never_fail and not isinstance(error, AirflowSkipException):
                raise AirflowSkipException("Skipping due to never_fail is set to True.") from error
            raise

    def poke(self, context: Context) -> PokeReturnValue:
        """Poke once. The first poke lists the end of the log; most others only probe for the next commit file."""
        try:
            self._watch = self._watch or self.begin(context)
        except TableNameNotFoundError as missing:
            self.log.info("Waiting for the name, as it may be a new table's: %s", printable(str(missing)))
            return PokeReturnValue(is_done=False)
        version = self.poll(self._watch, context)
        if version is not None:
            self.log.info("Version %s of %s fulfills the wait", version, self.table)
        return PokeReturnValue(is_done=version is not None, xcom_value=version)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Return the version that the trigger found, or raise its error; if the error is of an earlier try, wait again."""
        if "error" in event:
            if event.get("try_number") not in {None, context["ti"].try_number}:
                return self._wait(context)  # Airflow 3.0 resumes a retry of a deferred task with the event of the try before
            error = event["error"]
            with self._never_failing():
                raise DeltaError.from_json(error) or JobFailedError(
                    table=self.table, operation="wait", error=error["code"], detail=error["text"]
                )
        version: int = event["version"]
        self.log.info("Version %s of %s fulfills the wait", version, self.table)
        return version
