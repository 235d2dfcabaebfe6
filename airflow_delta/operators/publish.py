"""Publishing and discarding what other tasks have staged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from airflow.providers.common.compat.sdk import AirflowSkipException, XComNotFound
from airflow.sdk import Context, XComArg

from airflow_delta.core.statements import DiscardStatement, OperationResult, PublishStatement, Statement
from airflow_delta.core.statements.fields import is_template, shortened
from airflow_delta.core.statements.publish import PUBLISHED_KEY, StagedHandle
from airflow_delta.core.statements.validation import members
from airflow_delta.hooks.airflow_features import ArgNotSet, was_skipped
from airflow_delta.hooks.checked_arguments import without_run
from airflow_delta.jobs.catalog_publication import DETAIL, with_publications_of_handles
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.operators.asset_events import is_asset_of
from airflow_delta.operators.core import DeltaCoreOperator, Engine
from airflow_delta.operators.submit_arguments import check_submit_arguments, refuse_another_job


class _DeltaStagedOperator(DeltaCoreOperator):
    """Base of the operators that take handles of staged commits.

    Args:
        handles: What was staged: the XCom ``delta_staged`` of a task, or several in a list (templated).
        engine: As for ``DeltaCoreOperator``. Default: ``"auto"``, the worker if it can read the tables.
    """

    template_fields: Sequence[str] = (*DeltaCoreOperator.template_fields, "handles")

    def __init__(self, *, handles: Any, engine: Engine = "auto", **kwargs: Any) -> None:
        if "table" in kwargs:
            raise self.invalid("unexpected argument 'table': each handle names its own")
        super().__init__(table="", engine=engine, **kwargs)
        self.handles = handles
        self._skipped: Mapping[int, bool] = {}
        """By ``id()`` of each argument that rendered to no handle: whether the tasks behind it were skipped."""

    def check_arguments(self) -> None:
        """As in every operator; the handles of other tasks are only known in a run."""
        if any(map(is_template, _listed(without_run(self).handles))):
            refuse_another_job(self)
            check_submit_arguments(self)
        else:
            super().check_arguments()

    def render_template(self, content: Any, context: Context, jinja_env: Any = None, seen_oids: set[int] | None = None) -> Any:
        """Render as every operator does; a skipped task has None as its handle."""
        given = self.handles if isinstance(self.handles, list | tuple) else [self.handles]
        is_handle = any(content is handle for handle in given)
        if not (isinstance(content, XComArg) and is_handle):
            rendered = super().render_template(content, context, jinja_env, seen_oids)
            found = rendered if isinstance(rendered, list | tuple) else [rendered]
            if is_handle and isinstance(content, str) and None in found:  # in a DAG with render_template_as_native_obj
                raise self.invalid(f"expected the XCom delta_staged of a task that staged, found None for {shortened(content)}")
            return rendered
        try:
            rendered = super().render_template(content, context, jinja_env, seen_oids)
        except XComNotFound:
            if not _were_skipped(content, context):
                raise
            rendered = None
        if isinstance(rendered, list):  # before Airflow 3.2, skipped tasks of a mapped task group are in it
            rendered = [None if isinstance(handle, ArgNotSet) else handle for handle in rendered]
        if any(handle is not None for handle in _listed(rendered)):
            return rendered
        self._skipped = {**self._skipped, id(content): _were_skipped(content, context)}
        return None

    def statement(self) -> Statement:
        """The statement, made from the rendered arguments.

        Raises:
            AirflowSkipException: All tasks that should have staged a commit were skipped.
        """
        handles = [*_listed(self.handles)]
        staged = tuple(StagedHandle.of(handle) for handle in handles if handle is not None)
        is_of_skipped = bool(self._skipped) and all(self._skipped.values()) and len(handles) <= len(self._skipped)
        if not staged and is_of_skipped:
            raise AirflowSkipException("every task that stages was skipped: there is nothing to publish or to discard")
        return self._statement(handles=staged)


class DeltaPublishOperator(_DeltaStagedOperator):
    """Make the commits that other tasks have staged with ``publish="later"``, so that readers see them.

    Between the task that stages a commit and this one, other tasks can check it and decide whether it is published::

        stage = DeltaWriteOperator(task_id="stage", table="s3://lake/flights", source=feed, publish="later")
        check = DeltaExpectOperator(
            task_id="check", table="s3://lake/flights", staged=stage.output["delta_staged"], expect="delay > -120"
        )
        publish = DeltaPublishOperator(task_id="publish", handles=stage.output["delta_staged"])
        stage >> check >> publish

    First, all staged commits are checked: if one was discarded, has expired, or conflicts with a later commit, the task fails
    and nothing is published. Then each table gets its commit, rebased over later commits. The commit of one table is atomic,
    that of several tables is not: readers may see one table's commit before another's. If publishing fails halfway, the error
    names what is published and what is not, and a retry publishes the rest. Commits that were published before are found, not
    made again.

    The return value's ``details["published"]`` lists ``table``, ``id``, ``version``, ``read_version``, ``operation``,
    ``published`` (False if the task that stages had nothing to change) and ``already_published`` for every handle; ``version``
    and the XCom ``delta_version`` are those of the first.

    Args:
        handles: What was staged: the XCom ``delta_staged`` of a task, or several in a list (templated).
        engine: ``"worker"`` publishes in the Airflow worker, ``"spark"`` in a job; ``"auto"``, the default, in the worker if it
            can read the tables.
        asset: As for ``DeltaJobOperator``; its event describes the last commit to the asset's table.
    """

    statement_type = PublishStatement

    def _described_tables(self, resolved: Statement) -> tuple[str, ...]:
        """The tables whose commits were staged under a name."""
        handles = cast("PublishStatement", resolved).handles
        return tuple({handle.table: None for handle in handles if handle.name and handle.table != resolved.table})

    def _published(self, document: ResultDocument) -> ResultDocument:
        """As in every operator, for each table whose commit was staged under a name."""
        return with_publications_of_handles(self.hook, cast("PublishStatement", self.statement()).handles, document)

    def _announced(self, result: OperationResult) -> OperationResult:
        from airflow_delta.jobs.publish_statements import of_table

        return result if self.asset is None else of_table(result, self._is_of_asset)

    def announced_versions(self, result: OperationResult) -> Sequence[int]:
        """The version of each commit to the asset's table."""
        entries = result.details.get(PUBLISHED_KEY, ())
        return [entry["version"] for entry in entries if entry["published"] and self._is_of_asset(entry)]

    def _is_of_asset(self, entry: Mapping[str, Any]) -> bool:
        return self.asset is not None and is_asset_of(self.asset, entry["table"], entry.get(DETAIL))


class DeltaDiscardOperator(_DeltaStagedOperator):
    """Discard commits that other tasks have staged with ``publish="later"``, and delete their files.

    Use it in the branch of a DAG that runs when a check fails. Without it, a staged commit expires, and a vacuum deletes its
    files.

    Args:
        handles: What was staged: the XCom ``delta_staged`` of a task, or several in a list (templated).
        engine: ``"worker"`` discards in the Airflow worker, ``"spark"`` in a job; ``"auto"``, the default, in the worker if it
            can read the tables.
    """

    statement_type = DiscardStatement


def _listed(handles: Any) -> Iterator[Any]:
    """One or several handles as an iterator; a mapped task's are in a sequence that is not a ``list``. A set is refused."""
    is_one = isinstance(handles, str | Mapping) or not isinstance(handles, Iterable)
    return iter([handles] if is_one else members("the task", "handles", handles))


def _were_skipped(argument: XComArg, context: Context) -> bool:
    staging = [task for task, _ in argument.iter_references()]
    return bool(staging) and all(was_skipped(context["ti"], task.task_id) for task in staging)
