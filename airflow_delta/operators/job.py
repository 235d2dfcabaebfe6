"""The life of one statement as an Airflow task."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context, RetryPolicy, conf

from airflow_delta.core.actions.commit_info import Origin
from airflow_delta.core.committed import committed_result
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CommitConflictError, StorageAccessError, TableNotFoundError, UnsupportedStorageError
from airflow_delta.core.statements import OperationResult, Statement, WriteStatement
from airflow_delta.core.statements.json_form import is_statement_value, map_texts
from airflow_delta.core.storage.resolve import log_store_for
from airflow_delta.hooks.commit_watch import NO_TABLE, head_version
from airflow_delta.hooks.errors import ScratchUriNeededError
from airflow_delta.hooks.retry_policy import DeltaRetryPolicy
from airflow_delta.hooks.spark_target import SparkTarget, spark_target
from airflow_delta.hooks.task_token import OnClear, TaskToken, TokenScopedStore, task_token
from airflow_delta.jobs.archive import build_archive
from airflow_delta.jobs.errors import JobFailedError, ResultMissingError
from airflow_delta.jobs.result import ResultDocument, read_result, result_uri, written_results
from airflow_delta.jobs.scripts import job_script
from airflow_delta.jobs.spec import JobSpec, statement_digest


class DeltaJobOperator(SparkSubmitOperator):
    """Submits one statement to Spark and returns what came of it; the base of the operators of this package.

    Whatever happens to worker, driver or network, the statement commits once in each run of the task: its commit carries the
    task's token, and a retry looks for the token in the table's log before it submits anything. For that the statement must
    be the same in every try; templates such as ``{{ macros.datetime.now() }}`` make it another one.

    The task's return value is a dict: ``table``, ``version``, ``read_version``, ``operation``, ``committed``,
    ``already_committed``, ``metrics``, ``conflicts``, ``attempts``. The version alone is the XCom ``delta_version``. When
    another commit forbids this one, the XCom ``delta_conflict`` tells which, before the task fails with the typed error.

    :param table: URI of the table's root (templated).
    :param scratch_uri: Where the job leaves its result: a place that Spark's driver can write and the Airflow worker can read
        (templated). Default: ``[delta] scratch_uri``, else a hidden folder beside the table. Only needed when there is no
        table yet and the driver runs on the cluster, or when the worker cannot read the table.
    :param on_clear: What a cleared task does: ``"rerun"`` commits again, ``"reuse"`` returns the commit it had made, if any.
    :param retry_policy: Which errors are worth another try. Default: those that may not come again.
    :param kwargs: Everything that ``SparkSubmitOperator`` takes: ``conn_id``, ``conf``, ``num_executors`` and so on.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "table", "scratch_uri")

    script: ClassVar[str]
    """Name of the job script."""

    def __init__(
        self,
        *,
        table: str,
        scratch_uri: str | None = None,
        on_clear: OnClear = "rerun",
        retry_policy: RetryPolicy | None = DeltaRetryPolicy(),  # noqa: B008 - it has no state
        name: str = "{{ ti.dag_id }}.{{ ti.task_id }}",
        **kwargs: Any,
    ) -> None:
        super().__init__(retry_policy=retry_policy, name=name, **kwargs)
        self.table = table
        self.scratch_uri = scratch_uri
        self.on_clear = on_clear

    @abstractmethod
    def statement(self) -> Statement:
        """What the job is to do, made from the rendered arguments."""

    def render_template(self, content: Any, context: Context, jinja_env: Any = None, seen_oids: set[int] | None = None) -> Any:
        """Render like every operator, and look into statement values, which are built again from rendered texts."""
        if is_statement_value(content):
            return map_texts(content, lambda text: self.render_template(text, context, jinja_env, seen_oids))
        return super().render_template(content, context, jinja_env, seen_oids)

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # upstream returns nothing
        """Return the result of this task's commit: the one that is there already, or the one that the job makes.

        :raises DeltaError: The statement could not be done; the text says what, where and how to go on.
        """
        statement = self.statement()
        target = spark_target(self._conn_id, self._deploy_mode, self._spark_binary)
        scratch = self.scratch_uri or conf.get("delta", "scratch_uri", fallback=None) or None
        head = _visible_head(statement.table, scratch)
        if head == NO_TABLE and not isinstance(statement, WriteStatement):
            raise TableNotFoundError(table=statement.table)
        token = task_token(
            context["task_state_store"],
            generation=context["ti"].max_tries,
            digest=statement_digest(statement),
            on_clear=self.on_clear,
            head=lambda: head,
        )
        found = None if token.is_new or head is None else _committed(statement.table, token)
        if found is not None:
            self.log.info("Version %s of %s holds this task's commit; nothing is submitted", found.version, found.table)
            return self._deliver(found, context)
        with TemporaryDirectory(prefix="airflow-delta-") as private:
            base = scratch or _place_of_results(statement.table, head, target, private)
            before = written_results(base, token.token)
            spec = JobSpec(
                statement=statement,
                origin=_origin(context, token.token),
                start_version=token.start_version,
                result_uri=result_uri(base, token.token, context["ti"].try_number),
            )
            failure = self._submit(spec, target, Path(private), token, context)
            document = newest_document(base, token.token, before, is_done=failure is None)
        if document is not None and document.outcome is not None:
            return self._deliver(document.outcome, context)
        error = None if document is None else document.typed_error()
        found = None if head is None or (error is not None and not error.retryable) else _committed(statement.table, token)
        if found is not None:
            self.log.warning("The job was lost, but version %s of %s holds its commit", found.version, found.table)
            return self._deliver(found, context)
        if document is not None and isinstance(error, JobFailedError):
            self.log.info("Where the job failed:\n%s", document.traceback)
        if isinstance(error, CommitConflictError):
            context["ti"].xcom_push(key="delta_conflict", value=error.to_json())
        raise error or failure or ResultMissingError(table=statement.table, result_uri=str(spec.result_uri))

    def _submit(
        self, spec: JobSpec, target: SparkTarget, private: Path, token: TaskToken, context: Context
    ) -> Exception | None:
        """Run the job to its end; what went wrong is returned, because the job's document knows better."""
        self.application = str(job_script(self.script))
        self.py_files = ",".join(filter(None, [str(build_archive(private)), self.py_files]))
        self.application_args = ["--spec", spec.to_text()]
        self.conf = dict(self.conf or {})
        self._spark_binary = self._spark_binary or target.binary
        if target.is_local and "PYSPARK_PYTHON" not in os.environ:
            self.env_vars = {"PYSPARK_PYTHON": sys.executable} | dict(self.env_vars or {})
        if target.is_yarn_cluster and not self._yarn_track_via_rm_api:
            # Upstream refuses to be durable there without the resource manager's REST API.
            self._yarn_track_via_rm_api = target.yarn_webapp is not None
            self.durable = self._yarn_track_via_rm_api
        scoped: Any = {**context, "task_state_store": TokenScopedStore(context["task_state_store"], token.token)}
        try:
            super().execute(scoped)
        except Exception as failure:  # noqa: BLE001 - upstream raises whatever it likes
            return failure
        return None

    def _deliver(self, result: OperationResult, context: Context) -> dict[str, Any]:
        outcome = "is committed as" if result.committed else "left"
        self.log.info("%s %s version %s of %s", result.operation, outcome, result.version, result.table)
        context["ti"].xcom_push(key="delta_version", value=result.version)
        return result.to_json()


def _visible_head(table: str, scratch: str | None) -> int | None:
    """The table's version as the worker sees it; None when it cannot look, and there is another place for results."""
    try:
        return head_version(log_store_for(table))
    except UnsupportedStorageError:
        if scratch is None:
            raise
    except (PermissionError, StorageAccessError) as error:
        if scratch is None:
            raise ScratchUriNeededError(table=table, detail=f"the Airflow worker cannot read the table ({error})") from None
    return None


def _place_of_results(table: str, head: int | None, target: SparkTarget, private: str) -> str:
    """Below what the job leaves its result when nothing is configured: nothing is ever created where no table is."""
    if head != NO_TABLE:
        return table
    if target.is_cluster_mode:
        raise ScratchUriNeededError(table=table, detail="there is no table yet, and the driver runs on the cluster")
    return private


def _committed(table: str, token: TaskToken) -> OperationResult | None:
    return committed_result(DeltaLog.for_table(table), token.token, token.start_version)


def newest_document(base: str, token: str, before: set[int], *, is_done: bool) -> ResultDocument | None:
    """The document of this try's job: one that was not there before, else an outcome that was.

    A durable operator may have followed the job of an earlier try, whose document bears that try's number. When the job of
    this try is lost (not ``is_done``), an earlier outcome without a commit does not stand for it: such work runs again.
    """
    there = written_results(base, token)
    fresh = [read_result(result_uri(base, token, each)) for each in sorted(there - before, reverse=True)]
    earlier = [read_result(result_uri(base, token, each)) for each in sorted(before, reverse=True)]
    documents = [*fresh, *(each for each in earlier if each and each.outcome and (is_done or each.outcome.committed))]
    return next((each for each in documents if each is not None), None)


def _origin(context: Context, token: str) -> Origin:
    """The task run, in Delta's own fields where they fit, so that any engine's history shows it."""
    ti, dag_run = context["ti"], context["dag_run"]
    logical_date = dag_run.logical_date
    job: Mapping[str, str] = {
        "jobId": ti.dag_id,
        "jobName": f"{ti.dag_id}.{ti.task_id}",
        "jobRunId": ti.run_id,
        "runId": str(ti.id),
        "jobOwnerId": context["task"].owner,
        "triggerType": str(dag_run.run_type.value),
    }
    record = {
        "dag_id": ti.dag_id,
        "task_id": ti.task_id,
        "run_id": ti.run_id,
        "map_index": ti.map_index,
        "try_number": ti.try_number,
        "logical_date": None if logical_date is None else logical_date.isoformat(),
    }
    return Origin(token=token, job=job, record=record)
