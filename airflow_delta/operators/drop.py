"""DROP TABLE as a task: drop a table's name from the catalog and, on request, delete its files."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import Context

from airflow_delta.core.statements import DropStatement, OperationResult, Statement
from airflow_delta.core.statements.fields import is_template
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.hooks.dropped_names import DroppedName, DroppedNames
from airflow_delta.hooks.task_token import TaskToken
from airflow_delta.jobs.catalog_publication import DETAIL, TABLE_ID
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.attempt import Attempt, visible_head
from airflow_delta.operators.core import DeltaCoreOperator, Engine, release_ended_pins

if TYPE_CHECKING:
    from airflow_delta.catalogs.table_name import TableName

OPERATION = "DROP TABLE"


class DeltaDropOperator(DeltaCoreOperator):
    """Drop a table's name from the catalog of the connection; with ``delete_files``, delete the table's files, too.

    First the catalog is asked whether this is permitted; no file is deleted before the name is dropped. Files are only deleted
    if the catalog's entry holds the id of the table at that location, no other table lies below it, and no version is pinned by
    a run that has not ended, including the task's own run. A retry continues where a killed try has stopped.

    A name of the catalog ``spark`` is dropped by two jobs: one finds the table's location, the other drops the name. The worker
    waits for both, even with ``deferrable``.

    The result's ``details["catalog"]`` has ``catalog``, ``name`` and ``dropped``; its ``metrics`` count the deleted files.

    Args:
        table: The name, ``schema.table`` or ``catalog.schema.table``; a path is refused (templated).
        delete_files: Delete every file below the table's location, including its history (templated). Default: the files stay,
            and the table can be published again.
        if_exists: Do nothing if the name does not exist, instead of failing (templated).
        dry_run: Report what would be dropped and deleted, but do neither (templated).
        engine: Where files are deleted. ``"auto"``, the default, is the worker if it can read the table, else Spark. Names of
            the catalog ``spark`` need Spark.
    """

    statement_type = DropStatement
    template_fields: Sequence[str] = (
        *DeltaCoreOperator.template_fields,
        *argument_names(statement_type, but=("table_id", "catalog_name")),
        "if_exists",
    )
    argument_types: ClassVar[Mapping[str, Any]] = {
        **DeltaCoreOperator.argument_types,
        **dict.fromkeys(("delete_files", "if_exists", "dry_run"), bool),
    }

    def __init__(
        self,
        *,
        delete_files: bool | str = False,
        if_exists: bool | str = False,
        dry_run: bool | str = False,
        engine: Engine = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(engine=engine, **kwargs)
        self.delete_files: Any = delete_files
        self.if_exists: Any = if_exists
        self.dry_run: Any = dry_run

    def check_arguments(self) -> None:
        """As in every operator; a path is refused when the DAG is parsed."""
        from airflow_delta.catalogs.table_name import is_path

        super().check_arguments()
        if isinstance(self.table, str) and not is_template(self.table) and is_path(self.table):
            raise self.invalid(f"table must be a name of the catalog, such as sales.orders, found the path {self.table!r:.100}")

    def statement(self) -> Statement:
        """The statement, made from the rendered arguments; the table's id comes from the catalog later."""
        return self._statement(table_id=None, catalog_name=None)

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # upstream returns nothing
        """Drop the name, and then delete the files.

        Raises:
            DeltaError: The name does not exist, the catalog refuses to drop it, or the files cannot be deleted safely.
        """
        from airflow_delta.catalogs.errors import TableNameNotFoundError

        name = self._table_name()
        names = DroppedNames.of_task(context, self.hook, name, scratch_uri=self.scratch_uri, on_clear=self.on_clear)
        if self.hook.has_session_catalog:
            return self._deliver(self._drop_by_job(name, names, context), context)
        earlier = names.earlier()
        found = self._found(name, earlier)
        if found is not None:
            return self._deliver(self._drop(name, found, names, context), context)
        if earlier is None and not self.if_exists and not names.may_be_forgotten:
            raise TableNameNotFoundError(catalog=self.hook.catalog_label, name=str(name), detail="the name is not there")
        document = self._delete_files(earlier, context) if earlier and self.delete_files else self._nothing(earlier)
        if earlier is None and self.delete_files and names.may_be_forgotten:
            warning = "an earlier try may have dropped the name; where its files lay, and whether they are left, is not known"
            document = document.with_warnings([warning])
        return self._deliver(document, context)

    def _table_name(self) -> TableName:
        """The name to drop. Raises as ``DeltaHook.name_in_catalog`` does."""
        if self.engine == "worker" or not self.hook.is_session_name(self.table):
            return self.hook.name_in_catalog(self.table)
        from airflow_delta.catalogs.table_name import TableName

        return TableName.parse(self.table)

    def _drop_by_job(self, name: TableName, names: DroppedNames, context: Context) -> ResultDocument:
        """Drop a name of the catalog ``spark``: one job finds its table, which is remembered, and a second job drops it."""
        earlier = names.earlier()
        found = earlier or self._found_by_job(name, context)
        if found is None or (self.dry_run and not self.delete_files):
            return self._nothing(found)
        if not self.dry_run:
            names.remember(found)
        attempt = self._attempt(found)
        statement = DropStatement(
            table=found.location,
            table_id=found.table_id,
            catalog_name=str(name),
            delete_files=self.delete_files,
            dry_run=self.dry_run,
        )
        with self._undeferred(), names.forgotten_if_refused(had_name=earlier is None):
            return self._perform(replace(attempt, statement=statement), context)

    def _found_by_job(self, name: TableName, context: Context) -> DroppedName | None:
        """The table that the session has under the name; None if it has no such name, and ``if_exists`` is set."""
        from airflow_delta.catalogs.errors import TableNameNotFoundError

        statement = DropStatement(table=str(name), catalog_name=str(name), dry_run=True)
        scratch = self._scratch()
        head = visible_head(self.hook, str(name), scratch)
        attempt = Attempt(statement=statement, token=_new_token(), head=head, scratch=scratch)
        given = dict(vars(self))
        try:
            with self._undeferred():
                outcome = self._perform(attempt, context).outcome
        except TableNameNotFoundError:
            if self.if_exists:
                return None
            raise
        finally:
            vars(self).update(given)  # submitting changes attributes
        assert outcome is not None  # noqa: S101 - documents of errors are raised before
        version = None if outcome.version == NO_TABLE else outcome.version
        return DroppedName(location=outcome.table, table_id=outcome.details[DETAIL][TABLE_ID], version=version)

    @contextmanager
    def _undeferred(self) -> Iterator[None]:
        """Wait for jobs in the worker: the code after a job needs its outcome, and forgets the name if the drop was refused."""
        given, self.deferrable = self.deferrable, False
        try:
            yield
        finally:
            self.deferrable = given

    def _is_for_worker(self, attempt: Attempt) -> bool:
        statement = attempt.statement
        is_by_name = isinstance(statement, DropStatement) and statement.catalog_name is not None
        return not is_by_name and super()._is_for_worker(attempt)

    def _found(self, name: TableName, earlier: DroppedName | None) -> DroppedName | None:
        """The table that has the name, checked to be droppable; None if no table has it, or a new one since an earlier try."""
        from airflow_delta.catalogs.catalog import check_droppable

        catalog = self.hook.catalog
        assert catalog is not None  # noqa: S101 - or there would be no names
        entry = catalog.find(name)
        if entry is None:
            return None
        found = DroppedName(location=entry.location, table_id=entry.table_id, version=entry.version)
        if earlier is not None and not found.is_same_table(earlier):
            return None
        check_droppable(catalog, entry, with_files=self.delete_files)
        return found

    def _drop(self, name: TableName, found: DroppedName, names: DroppedNames, context: Context) -> ResultDocument:
        catalog = self.hook.catalog
        assert catalog is not None  # noqa: S101 - or there would be no names
        if self.delete_files:
            self._check_files(found, context)
        if self.dry_run:
            return self._delete_files(found, context) if self.delete_files else self._nothing(found)
        names.remember(found)
        self.log.info("Dropping %s from the catalog %s; its table lies at %s", name, catalog.label, found.location)
        with names.forgotten_if_refused(had_name=True):
            catalog.drop(name)
        return self._delete_files(found, context) if self.delete_files else self._nothing(found)

    def _check_files(self, found: DroppedName, context: Context) -> None:
        """Before the name is dropped, raise what deleting the files would raise; only if the worker can read the table."""
        from airflow_delta.core.operations.delete_table import delete_table

        attempt = self._attempt(found)
        if attempt.head is not None:
            release_ended_pins(self, attempt.statement, attempt, context)
            delete_table(self.hook.delta_log(found.location), str(found.table_id), dry_run=True)

    def _delete_files(self, found: DroppedName, context: Context) -> ResultDocument:
        return self._perform(self._attempt(found), context)

    def _attempt(self, found: DroppedName) -> Attempt:
        statement = DropStatement(table=found.location, table_id=found.table_id, delete_files=True, dry_run=self.dry_run)
        scratch = self._scratch()
        head = visible_head(self.hook, found.location, scratch)
        if scratch is None:
            head = NO_TABLE  # a job must not leave its result below a table that is deleted
        return Attempt(statement=statement, token=_new_token(), head=head, scratch=scratch)

    def _scratch(self) -> str | None:
        return self.scratch_uri or self.hook.scratch_uri or conf.get("delta", "scratch_uri", fallback=None) or None

    def _nothing(self, found: DroppedName | None = None) -> ResultDocument:
        """The outcome if no file is deleted."""
        version = NO_TABLE if found is None or found.version is None else found.version
        return ResultDocument(
            outcome=OperationResult(
                table=self.table if found is None else found.location,
                version=version,
                read_version=version,
                operation=OPERATION,
                committed=False,
                dry_run=self.dry_run,
                details={DETAIL: {"dropped": False}} if found is None else {},
            )
        )

    def _published(self, document: ResultDocument) -> ResultDocument:
        """The document, unchanged: a dropped name is not published."""
        return document

    def _deliver(self, document: ResultDocument, context: Context) -> dict[str, Any]:
        """As in every operator; the result also says whether the name was dropped."""
        outcome = document.outcome
        assert outcome is not None  # noqa: S101 - documents of errors are raised before
        entry = {
            "catalog": self.hook.catalog_label,
            "name": str(self._table_name()),
            "dropped": outcome.details.get(DETAIL, {}).get("dropped", not outcome.dry_run),
        }
        named = replace(outcome, details={**outcome.details, DETAIL: entry})
        return super()._deliver(replace(document, outcome=named), context)


def _new_token() -> TaskToken:
    """The token of a job that commits nothing, so that no other try looks for its commit."""
    return TaskToken(token=uuid.uuid4().hex, start_version=None, is_new=True)
