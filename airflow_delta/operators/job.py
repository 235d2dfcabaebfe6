"""The base operator: one statement as an Airflow task, from the arguments to the result."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NoReturn

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import Asset, BaseOperatorLink, Context

from airflow_delta.core.foreign_values import printable, printable_lines
from airflow_delta.core.statements import OperationResult, Statement
from airflow_delta.core.statements.fields import is_template
from airflow_delta.core.statements.json_form import is_statement_value, map_texts
from airflow_delta.core.statements.publish import STAGED_KEY
from airflow_delta.hooks.airflow_features import HAS_PARTITION_KEYS, check_feature
from airflow_delta.hooks.checked_arguments import CheckedArguments, without_run
from airflow_delta.hooks.conflict_report import report_conflicts
from airflow_delta.hooks.connect_driver import ConnectDriver
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.errors import DriverLostError
from airflow_delta.hooks.exposed_secrets import mask_exposed, refuse_exposed
from airflow_delta.hooks.job_environment import credentials_for_the_driver
from airflow_delta.hooks.native_templates import rendered_argument, text_environment
from airflow_delta.hooks.spark_submit import SubmitOperator
from airflow_delta.hooks.spark_target import SparkTarget, spark_target
from airflow_delta.hooks.task_token import OnClear, TaskToken, TokenScopedStore
from airflow_delta.hooks.xcoms import push_xcom, xcom_value
from airflow_delta.jobs.best_effort import BestEffort
from airflow_delta.jobs.catalog_publication import with_publication
from airflow_delta.jobs.errors import JobFailedError, ResultMissingError
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.jobs.summary import summary
from airflow_delta.observe.links import DeltaTableHistoryLink, SparkApplicationLink, push_links
from airflow_delta.operators.asset_events import Emit, declared, emit_asset_events, require_asset
from airflow_delta.operators.attempt import Attempt, origin_of, seconds_of_try
from airflow_delta.operators.connect_arguments import session_settings
from airflow_delta.operators.deferred_job import DeferredJob, check_end_is_noticed
from airflow_delta.operators.earlier_tries import EarlierTries
from airflow_delta.operators.openlineage import OpenLineageMethods
from airflow_delta.operators.result_location import ResultLocation
from airflow_delta.operators.submission import check_uploads, driver_python, spec_argument, submit_conf
from airflow_delta.operators.submit_arguments import check_submit_arguments, refuse_another_job
from airflow_delta.shipping.ship import local_code, shipped_code
from airflow_delta.spark.errors import FunctionFailedError

STAGED_XCOM = "delta_staged"
"""Key of the XCom with the handle of the task's staged commit; its ``id`` is ``None`` if there was nothing to commit."""

_NOTHING_STAGED: Mapping[str, Any] = {"id": None, "files": 0, "rows": 0, "bytes": 0, "paths": []}
"""Members of a handle if there was nothing to commit."""


class DeltaJobOperator(CheckedArguments, OpenLineageMethods, SubmitOperator):
    """Submits one statement to Spark and returns its outcome; the base of this package's operators.

    With a ``conn_id`` of type ``spark_connect``, nothing is submitted: the statement's driver is a child process of the worker
    that uses a Spark Connect server.

    Whatever happens to worker, driver or network, the statement commits exactly once per run of the task: its commit carries
    the task's idempotency token, and a retry looks for the token in the table's log before it submits anything. This requires
    the same statement in every try; templates such as ``{{ macros.datetime.now() }}`` would change it.

    The task's return value is a dict: ``table``, ``version``, ``read_version``, ``operation``, ``committed``,
    ``already_committed``, ``dry_run``, ``metrics``, ``conflicts``, ``attempts``, ``sources``, ``details``, ``warnings`` (what
    failed after the commit, such as a checkpoint that was due). The XCom ``delta_version`` holds the version alone. If another
    commit conflicts with this one, the task pushes the XCom ``delta_conflict``, which describes the conflict, and fails with
    the typed error.

    Every argument is checked when the DAG is parsed, unless it holds a template, and again when its templates are rendered.
    Flags, numbers and enumerated words can be templates, too: strings such as ``"false"`` and ``"7"`` are converted, and
    invalid ones are refused.

    Args:
        table: URI of the table's root, its path below the connection's table root, or its name in the connection's catalog
            (templated).
        delta_conn_id: The ``delta`` connection, with table root, credentials and scratch location (templated).
        scratch_uri: URI of the location for the job's result, which Spark's driver can write and the Airflow worker can read
            (templated). Default: ``scratch_uri`` of the connection or of ``[delta]``, else a hidden folder below the table's
            root. Only needed if there is no table yet and the driver runs on the cluster, or if the worker cannot read the
            table.
        on_clear: What a cleared task does: ``"rerun"`` commits again, ``"reuse"`` returns the commit that it had made, if any
            (templated).
        code_uri: URI of the location to which ``airflow-delta ship`` has copied the code of this version (templated). Default:
            each submit sends the code.
        deferrable: In the cluster modes of YARN and Kubernetes, free the worker while the job runs, and wait for its result in
            the triggerer, for at most ``execution_timeout`` (templated). If the driver runs beside the worker, the worker
            waits.
        poll_interval: Seconds between two polls of the triggerer (templated).
        asset: The table's asset, made by ``delta_asset``: it becomes an outlet of the task, and its event holds table, version
            and metrics of the commit. A mapped operator must have it in ``outlets``, too.
        emit: When an event of the asset is emitted (templated): ``"on_commit"`` only if this task has a commit in the log, but
            not for OPTIMIZE and the like, which change no rows; ``"always"`` on every success; ``"never"`` if the commits are
            announced elsewhere, such as by the asset's own watcher.
        partition_keys: Make the version the event's partition key (templated): a DAG with ``PartitionedAssetTimetable`` then
            runs once per version, which is its ``{{ partition_key }}``. DAGs scheduled on the asset without partitions do not
            run.
        retry_policy: Which errors are retried. Default: those that another try may overcome, such as a commit that lost a race.
        **kwargs: All arguments of ``SparkSubmitOperator``: ``conn_id``, ``conf``, ``num_executors`` and so on.
    """

    template_fields: Sequence[str] = (
        *SubmitOperator.template_fields,
        "table",
        "delta_conn_id",
        "scratch_uri",
        "code_uri",
        "on_clear",
        "deferrable",
        "poll_interval",
        "emit",
        "partition_keys",
    )

    argument_types: ClassVar[Mapping[str, Any]] = {
        "delta_conn_id": str,
        "on_clear": OnClear,
        "deferrable": bool,
        "poll_interval": float,
        "emit": Emit,
        "partition_keys": bool,
    }

    dry_run: Any  # an argument of most operators; replaces Airflow's method, which only logs templates

    statement_type: ClassVar[type[Statement]]
    """Class of the task's statement; its ``type_name`` is the name of the job script."""

    operator_extra_links: Collection[BaseOperatorLink] = (DeltaTableHistoryLink(), SparkApplicationLink())

    outcome: ResultDocument | None = None
    """The outcome of the statement once it is delivered, for listeners in the worker; None before."""

    def __init__(
        self,
        *,
        table: str,
        delta_conn_id: str = DeltaHook.default_conn_name,
        scratch_uri: str | None = None,
        on_clear: OnClear = "rerun",
        code_uri: str | None = None,
        deferrable: bool | str = conf.getboolean("operators", "default_deferrable", fallback=False),
        poll_interval: float | str = 10,
        asset: Asset | None = None,
        emit: Emit = "on_commit",
        partition_keys: bool | str = False,
        name: str = "{{ ti.dag_id }}.{{ ti.task_id }}",
        outlets: Any = [],  # noqa: B006 - for a mapped task, Airflow adds this default to a list
        **kwargs: Any,
    ) -> None:
        if asset is not None:
            require_asset(self, asset)
        super().__init__(name=name, outlets=declared(outlets, asset), **kwargs)
        if not self.do_xcom_push:
            self.operator_extra_links = ()  # Airflow pushes the URL of each as an XCom
        self.table = table
        self.delta_conn_id = delta_conn_id
        self.scratch_uri = scratch_uri
        self.on_clear = on_clear
        self.code_uri = code_uri
        self.deferrable: Any = deferrable
        self.poll_interval: Any = poll_interval
        self.asset = asset
        self.emit = emit
        self.partition_keys: Any = partition_keys
        self._defers = False
        self._job_id: str | None = None
        self._driver: ConnectDriver | None = None
        self._tables: DeltaHook | None = None

    def check_arguments(self) -> None:
        """When the DAG is parsed, refuse arguments that would be refused when the task runs, as far as they are known.

        Raises:
            InvalidStatementError: The arguments contradict each other, or one of them is invalid.
            AirflowFeatureMissingError: One of them needs a newer Airflow.
        """
        refuse_another_job(self)
        check_submit_arguments(self)
        if not is_template(self.poll_interval) and self.poll_interval <= 0:
            raise self.invalid(f"poll_interval must be more than 0 seconds, found {self.poll_interval}")
        check_feature("partition_keys", is_there=HAS_PARTITION_KEYS or self.partition_keys is False, needed="3.3")
        without_run(self).statement()

    def statement(self) -> Statement:
        """The statement, made from the rendered arguments."""
        return self._statement()

    def begun_statement(self) -> Statement:
        """The statement of a job that has begun and may have committed: made from the arguments alone, without a catalog."""
        return self.statement()

    def _statement(self, **values: Any) -> Statement:
        """The statement with these values; its other fields come from the arguments of the same names."""
        names = [field.name for field in fields(self.statement_type) if field.name not in values]
        return self.statement_type(**{name: getattr(self, name) for name in names}, **values)

    def render_template(self, content: Any, context: Context, jinja_env: Any = None, seen_oids: set[int] | None = None) -> Any:
        """Render as every operator does; statement values are rebuilt with all strings in them rendered."""
        if not is_statement_value(content):
            return super().render_template(content, context, jinja_env, seen_oids)
        environment = text_environment(self, jinja_env)
        rendered = map_texts(
            content,
            lambda text: self.render_template(text, context, jinja_env, seen_oids),
            argument=None if environment is None else lambda text: rendered_argument(text, context, environment),
        )
        self.refuse_lost_members(content, rendered)
        mask_exposed(rendered)
        return rendered

    @property
    def hook(self) -> DeltaHook:
        """The tables of the operator's connection; one hook per try, which remembers the names that it has resolved."""
        if self._tables is None or self._tables.delta_conn_id != self.delta_conn_id:
            self._tables = DeltaHook(self.delta_conn_id)
        return self._tables

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # upstream returns nothing
        """Return the result of this task's commit, which an earlier try has made or this try makes.

        Raises:
            DeltaError: The statement failed; the text says what was expected, what was found and what to do.
        """
        self._tables = None  # for another try by `dag.test`, which uses the same operator
        attempt = self._begin(context)
        if not attempt.token.is_new:
            found = self._find_commit(attempt)
            if found is not None:
                return self._deliver(found, context)
        with report_conflicts(context):
            document = self._perform(attempt, context)
        return self._deliver(document, context)

    def _begin(self, context: Context, *, in_worker: bool = False) -> Attempt:
        return Attempt.begin(
            self.hook,
            self.statement(),
            context,
            scratch_uri=self.scratch_uri,
            on_clear=self.on_clear,
            in_worker=in_worker,
        )

    def _perform(self, attempt: Attempt, context: Context) -> ResultDocument:
        """Run the statement in a Spark job, and return the document of its outcome. Raises the job's error."""
        check_submit_arguments(self)  # now that templates are rendered
        target = spark_target(self.spark_conn_id, self.deploy_mode, self.submit_binary)
        refuse_exposed(attempt.statement, self.conf, self.env_vars, target, self.command_arguments)
        EarlierTries(hook=self.hook, attempt=attempt).end_drivers(target)
        self._defers = self.deferrable and target.is_cluster_mode
        if self._defers:
            check_end_is_noticed(target, self.spark_conn_id, self.execution_timeout)
        token = attempt.token
        with (
            self._connect_driver(target, token) as self._driver,
            TemporaryDirectory(prefix="airflow-delta-", ignore_cleanup_errors=True) as private,
        ):
            location = ResultLocation.before_submit(self.hook, attempt, target, private)
            spec = JobSpec(
                statement=attempt.statement,
                origin=origin_of(context, token.token),
                start_version=token.start_version,
                result_uri=location.uri(context["ti"].try_number),
                earliest_commit_time=round(1_000 * context["dag_run"].run_after.timestamp()),
                allowed_prefixes=self.hook.allowed_prefixes,
                managed_tables=self.hook.managed_tables,
                described_tables=() if self.hook.has_session_catalog else self._described_tables(attempt.statement),
                has_session_names=self.hook.has_session_catalog,
            )
            if self._driver is None:
                failure = self._submit(spec, target, Path(private), token, context)
            else:
                failure = self._driver.run(spec, Path(private))
            if failure is None and self._defers and (self._job_id is not None or not target.reports_drivers):
                self._wait_in_triggerer(location, attempt, context)
            return self._final_document(attempt, location, failure, context)

    def _connect_driver(self, target: SparkTarget, token: TaskToken) -> AbstractContextManager[ConnectDriver | None]:
        """The driver for Spark Connect, else None. It is started early, as it takes about a second until it accepts its job."""
        if target.remote is None:
            return nullcontext()
        settings = session_settings(self, self.spark_conn_id)
        self.log.info("The statement runs over Spark Connect at %s", target.master)
        with credentials_for_the_driver(self.hook, target):
            return ConnectDriver(remote=target.remote, settings=settings, env_vars=self.env_vars or {}, token=token.token)

    def on_kill(self) -> None:
        """End the job, and what it runs on Spark."""
        if self._driver is None:
            super().on_kill()
        else:
            self._driver.kill()

    def _submit(
        self, spec: JobSpec, target: SparkTarget, private: Path, token: TaskToken, context: Context
    ) -> Exception | None:
        """Run the job to its end, or only submit it. An error is returned: the job's document may describe it better."""
        argument, spec_file = spec_argument(spec.to_text(), token.token, private, target)
        if self.code_uri is None or spec_file is not None:
            check_uploads(self.spark_conn_id, target, self.conf or {}, self.properties_file)
        script = spec.statement.type_name
        code = shipped_code(self.code_uri, script) if self.code_uri else local_code(private, script)
        self.application = code.application
        self.py_files = ",".join(filter(None, [code.archive, self.py_files]))
        self.files = ",".join(filter(None, [spec_file, self.files])) or None
        self.application_args = ["--spec", argument]
        self.conf = submit_conf(self.conf, target, defers=self._defers)
        self.submit_binary = self.submit_binary or target.binary
        self.env_vars = driver_python(target, {**os.environ, **(self.env_vars or {})}) | dict(self.env_vars or {})
        if target.is_yarn_cluster and not self.follows_yarn:
            # There, upstream refuses durable=True without the resource manager's REST API.
            self.follows_yarn = target.yarn_webapp is not None
            self.durable = self.durable and self.follows_yarn
        if target.is_kubernetes and self._defers:
            self.follow_pod()
        self.log.info("Submitting %s on %s to %s", script, spec.statement.table, target.master)
        scoped: Any = dict(context)
        if (store := context.get("task_state_store")) is not None:
            scoped["task_state_store"] = TokenScopedStore(store, token.token)
        try:
            with credentials_for_the_driver(self.hook, target):
                super().execute(scoped)
        except Exception as failure:  # noqa: BLE001 - upstream raises whatever it likes
            ending = self.submit_ending
            if target.is_cluster_mode or ending is None:
                return failure
            lost = DriverLostError(table=spec.statement.table, detail=f"spark-submit failed ({ending})")
            lost.__cause__ = failure
            return lost
        return None

    def poll_until_complete(self, external_id: Any, context: Context) -> None:
        """Follow the submitted job to its end; if the triggerer will do that, only keep the job's id."""
        if self._defers:
            self._job_id = str(external_id)
        else:
            super().poll_until_complete(external_id, context)

    def _wait_in_triggerer(self, location: ResultLocation, attempt: Attempt, context: Context) -> NoReturn:
        trigger = DeferredJob(attempt=attempt, location=location).trigger(
            self.begun_statement().table,
            try_number=context["ti"].try_number,
            spark_conn_id=self.spark_conn_id,
            job_id=self._job_id,
            timeout=self.execution_timeout,
            poll_interval=self.poll_interval,
        )
        self.defer(trigger=trigger, method_name="execute_complete")

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Return the result of the job that the triggerer has waited for, as ``execute`` would.

        Args:
            context: Airflow's context of the task run.
            event: The event of ``DeltaResultTrigger``.

        Raises:
            DeltaError: As ``execute``; ``DriverLostError`` when there is neither a result nor a commit.
        """
        if event.get("try_number") not in {None, context["ti"].try_number}:  # Airflow 3.0 resumes a retry as the try before it
            return self.execute(context)
        job = DeferredJob.from_event(self.hook, self.begun_statement(), event)
        with report_conflicts(context):
            document = self._final_document(job.attempt, job.location, job.failure(event["state"]), context)
        return self._deliver(document, context)

    def _final_document(
        self, attempt: Attempt, location: ResultLocation, failure: Exception | None, context: Context
    ) -> ResultDocument:
        """The document of a job that has ended, or of its commit in the table's log; else raises the job's error."""
        table = attempt.statement.table
        document = location.newest(is_done=failure is None)
        if document is not None and document.outcome is not None:
            return document
        error = None if document is None else document.typed_error()
        found = None if error is not None and not error.retryable else self._find_commit(attempt)
        if found is not None:
            self.log.warning("Driver lost, but its commit is in the log of %s", table)
            return found
        if document is not None and isinstance(error, JobFailedError | FunctionFailedError):
            self.log.info("Traceback of the job:\n%s", printable_lines(document.traceback))
        raise error or failure or ResultMissingError(table=table, result_uri=location.uri(context["ti"].try_number))

    def _deliver(self, document: ResultDocument, context: Context) -> dict[str, Any]:
        """Publish the table if it has a name, and report the outcome to Airflow: log, XComs, asset event.

        Every outcome passes through here.
        """
        if not self.hook.has_session_catalog:  # else the job has published its tables
            document = self._published(document)
        result = document.outcome
        assert result is not None  # noqa: S101 - documents of errors are raised before
        for warning in result.warnings:
            self.log.warning("%s", printable(warning))
        if STAGED_KEY in result.details or getattr(self, "publish", "now") == "later":
            push_xcom(context, STAGED_XCOM, result.details.get(STAGED_KEY) or {"table": result.table, **_NOTHING_STAGED})
        best_effort = BestEffort(result.warnings)
        with best_effort.attempt("the XCom delta_version"):
            push_xcom(context, "delta_version", result.version)
        with best_effort.attempt("the asset's event"):
            announced = self._announced(result)
            emit_asset_events(
                self,
                announced,
                context,
                asset=self.asset,
                emit=self.emit,
                partition_keys=self.partition_keys,
                versions=self.announced_versions(result),
            )
        with best_effort.attempt("the page of the table's history"):
            push_links(document, context)
        self.outcome = document.with_warnings(best_effort.warnings)
        with best_effort.attempt("the summary"):
            self.log.info("%s", summary(document, seconds=seconds_of_try(context)))
        returned: dict[str, Any] = xcom_value(replace(result, warnings=tuple(best_effort.warnings)).to_json())
        return returned

    def _described_tables(self, resolved: Statement) -> tuple[str, ...]:  # noqa: ARG002 - for operators with several tables
        """URIs of further tables that are published, besides the statement's own, and that the result is to describe."""
        return ()

    def _published(self, document: ResultDocument) -> ResultDocument:
        """Publish the table if it has a name; return the document with the outcome. Never raises, as the commit is made."""
        return with_publication(self.hook, self._name(), document)

    def _name(self) -> str:
        """The name under which the table is published; a path is not published."""
        return self.table

    def _announced(self, result: OperationResult) -> OperationResult:
        """The result that the asset's event describes."""
        return result

    def announced_versions(self, result: OperationResult) -> Sequence[int]:  # noqa: ARG002 - for operators of several commits
        """The versions of the asset's table for partition keys; empty if there is only the announced result's version."""
        return ()

    def _find_commit(self, attempt: Attempt) -> ResultDocument | None:
        """What an earlier try has committed or staged; None if nothing, or if the worker cannot read the table."""
        return EarlierTries(hook=self.hook, attempt=attempt).result()
