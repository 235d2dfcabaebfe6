"""The base of the sensors: waiting for a table here, or in the triggerer."""

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
    """Wait until a Delta table has what is waited for, and return its version. A missing table, or name, is waited for.

    Of Airflow's own arguments, ``soft_fail`` is for the ``timeout``, ``never_fail`` for errors too, here and in the triggerer;
    ``silent_fail`` is for the worker.

    Args:
        table: URI of the table's root, or its name below the table root of the connection (templated).
        delta_conn_id: The ``delta`` connection (templated).
        deferrable: Wait in the triggerer, without a worker (templated).
        retry_policy: Which errors are tried again. Default: those that another try may overcome, such as a lost race.
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
        """Refuse a table without a name, and polls of the triggerer without a pause between them.

        Raises:
            InvalidStatementError: As said.
        """
        require_text(type(self).__name__, "table", without_run(self).table)
        if self.deferrable is True and self.poke_interval <= 0:
            raise self.invalid(f"poke_interval must be more than 0 seconds in the triggerer, found {self.poke_interval}")

    @abstractmethod
    def begin(self, context: Context) -> Any:
        """The watch of this task run."""

    def progress(self, context: Context) -> StoredProgress:
        """What this task run has seen of the table, kept between its processes."""
        return StoredProgress.of_task(context, DeltaHook(self.delta_conn_id), self.table, self.question())

    @abstractmethod
    def question(self) -> Any:
        """What is waited for, as JSON values: progress with one question is none with another."""

    def poll(self, watch: Watch, context: Context) -> int | None:
        """The version that fulfills the wait, if there is one; the progress of the search is stored."""
        before = watch.wait
        try:
            return watch.poll()
        finally:
            if watch.wait != before:
                try:
                    self.progress(context).save(watch.wait.progress)
                except Exception as error:  # noqa: BLE001 - the progress only saves reading
                    self.log.info("a retry will read the log again: %s", printable(str(error)))

    def execute(self, context: Context) -> Any:
        """Wait here, or in the triggerer after a first poke."""
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
            return super().execute(context)  # a trigger needs the table; what waits for its name is a worker
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
        """As of every sensor, whose ``soft_fail`` skips what ``execute_complete`` raises as an error of Airflow."""
        with self._found_at_timeout():
            return super().resume_execution(next_method, next_kwargs, context)

    @contextmanager
    def _found_at_timeout(self) -> Iterator[None]:
        """Log at the end of the ``timeout`` what there is in place of what was waited for: Airflow says how long it was."""
        try:
            yield
        except (AirflowSensorTimeout, AirflowSkipException) as ended:
            if self._is_timeout(ended):
                try:
                    self.log.warning("The wait timed out; found: %s", printable(self.found_instead()))
                except Exception as error:  # noqa: BLE001 - it is the timeout that ends the task
                    self.log.warning("The wait timed out; the table cannot be read: %s", printable(str(error)))
            raise

    def _is_timeout(self, ended: Exception) -> bool:
        """Whether this is the end of the ``timeout``: with ``soft_fail`` a skip, which names no other cause."""
        cause = ended.__cause__
        is_skip = self.soft_fail and cause is None
        return is_skip or isinstance(ended, AirflowSensorTimeout) or isinstance(cause, AirflowSensorTimeout)

    def found_instead(self) -> str:
        """What there is at the end of the timeout in place of what was waited for."""
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
        """Skip the task on an error where ``never_fail`` is set, as Airflow does for ``poke``; a missing name is waited for."""
        try:
            yield
        except TableNameNotFoundError:
            raise
        except Exception as error:
            if self.never_fail and not isinstance(error, AirflowSkipException):
                raise AirflowSkipException("Skipping due to never_fail is set to True.") from error
            raise

    def poke(self, context: Context) -> PokeReturnValue:
        """Poke once: a listing of the log's end the first time, then one probe for the next file."""
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
        """Return the version that the trigger found, or raise its error; with the error of an earlier try, wait anew."""
        if "error" in event:
            if event.get("try_number") not in {None, context["ti"].try_number}:
                return self._wait(context)  # on Airflow 3.0 a retry of a deferred task is resumed as the try before it was
            error = event["error"]
            with self._never_failing():
                raise DeltaError.from_json(error) or JobFailedError(
                    table=self.table, operation="wait", error=error["code"], detail=error["text"]
                )
        version: int = event["version"]
        self.log.info("Version %s of %s fulfills the wait", version, self.table)
        return version
