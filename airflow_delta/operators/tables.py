"""The tables below a folder, as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow.sdk import BaseOperator, Context

from airflow_delta.core.statements.fields import is_template
from airflow_delta.hooks.checked_arguments import CheckedArguments, without_run
from airflow_delta.hooks.delta import DeltaHook


class DeltaTablesOperator(CheckedArguments, BaseOperator):
    """Find the Delta tables below a folder, and return their URIs, sorted; ``.expand`` over them runs one task per table.

    For example::

        tables = DeltaTablesOperator(task_id="tables", root="s3://lake/silver")
        DeltaMaintenanceOperator.partial(task_id="maintain").expand(table=tables.output)

    A folder with a ``_delta_log`` is a table, and is not searched for other tables; folders whose names begin with ``_`` or a
    dot are skipped. Airflow maps over at most ``[core] max_map_length`` tables (1,024 unless configured). No Spark is started.

    Args:
        root: URI of the folder, or its path below the connection's table root (templated).
        pattern: Glob for the tables' paths below the folder, such as ``sales_*/*``; a glob without a slash matches names in any
            folder (templated). Default: all tables.
        max_depth: Number of folder levels below the root that are searched (templated). Default: 3.
        delta_conn_id: The ``delta`` connection (templated).
        retry_policy: Which errors are retried. Default: those that another try may overcome.
    """

    template_fields: Sequence[str] = ("root", "pattern", "max_depth", "delta_conn_id")
    argument_types: ClassVar[Mapping[str, Any]] = {"delta_conn_id": str, "pattern": str | None, "max_depth": int}

    def __init__(
        self,
        *,
        root: str,
        pattern: str | None = None,
        max_depth: int | str = 3,
        delta_conn_id: str = DeltaHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.root = root
        self.pattern: Any = pattern
        self.max_depth: Any = max_depth
        self.delta_conn_id = delta_conn_id

    def check_arguments(self) -> None:
        """Refuse a depth below zero, and a blank root. Raises ``InvalidStatementError``."""
        known = without_run(self)
        if not isinstance(known.root, str) or not known.root.strip():
            raise self.invalid(f"root must be a URI, found {known.root!r}")
        if not is_template(known.max_depth) and known.max_depth < 0:
            raise self.invalid(f"max_depth must not be negative, found {known.max_depth}")

    def execute(self, context: Context) -> list[str]:  # noqa: ARG002 - Airflow's signature
        """Return the URIs of the tables.

        Raises:
            TablesNotVisibleError: Workers have no access to the tables of this connection.
        """
        from airflow_delta.core.operations.table_search import find_tables

        self.check_arguments()
        store = DeltaHook(self.delta_conn_id).log_store(self.root)
        found = find_tables(store, pattern=self.pattern, max_depth=self.max_depth)
        if found:
            self.log.info("Found %s tables below %s", len(found), store.table_uri)
        else:  # in an object store, a folder that does not exist looks empty, too
            text = "Found no tables below %s (pattern=%r, max_depth=%s): tasks that are mapped over them will be skipped"
            self.log.warning(text, store.table_uri, self.pattern, self.max_depth)
        return [f"{store.table_uri}/{path}" if path else store.table_uri for path in found]
