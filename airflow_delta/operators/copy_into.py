"""COPY INTO as a task: load new files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_delta.core.statements import CopyIntoStatement, Expectation, Statement
from airflow_delta.core.statements.fields import is_template
from airflow_delta.core.storage.table_uri import absolute
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.job import DeltaJobOperator


class DeltaCopyIntoOperator(DeltaJobOperator):
    """Load the files below a path into a Delta table, as one commit; each file is loaded once.

    For example::

        DeltaCopyIntoOperator(
            task_id="bronze",
            table="s3://lake/orders",
            path="s3://incoming/orders",
            format="csv",
            options={"header": "true"},
            schema="order_id BIGINT, day DATE, price DECIMAL(10, 2)",
            rescued_column="_rescued",
        )

    The commit that adds the rows also records which files they came from, so that a killed task, a retry or a second task
    neither loads a file twice nor leaves one out. The first load creates the table; if there are no new files, nothing is
    committed. A file is identified by its path: a file that has changed since its load is not loaded again, but counted
    (``numChangedFiles``). Files and folders whose names begin with ``_`` or a dot are ignored: writers should write under such
    a name, and rename the file when it is complete.

    The metrics are ``numSourceFiles`` and ``numSourceBytes`` (loaded), ``numKnownFiles`` (loaded before),
    ``numChangedFiles``, ``numWaitingFiles`` (left by limits), ``numOutputRows`` and ``numRescuedRows``.

    Args:
        table: URI of the table's root, its path below the connection's table root, or its name in the connection's catalog
            (templated).
        path: URI of the folder with the files (templated). Folders named ``column=value`` directly below it become columns.
        format: Spark's name of the format: ``csv``, ``json``, ``parquet``, or ``avro`` if Spark has its package (templated).
        pattern: Which files to load, as a glob below the path such as ``2026-*/**/*.csv``; a glob without a slash matches file
            names in any folder (templated). Default: all files.
        options: The options of Spark's reader (templated).
        schema: Columns as Spark DDL (templated). Default: Spark infers them from the files of each load. For JSON, and for CSV
            with the option ``inferSchema``, the files are then read twice, and different files may give different types;
            without that option, all columns of CSV are strings.
        select: Spark SQL expressions over the rows, such as ``["*", "_metadata.file_path AS file"]`` (templated). Default: all
            columns.
        rescued_column: Name of a string column for rows of CSV, JSON or XML that do not fit the columns: it holds the whole
            original row, and the values that can be parsed stay in their columns (templated). Default: the first such row fails
            the task.
        merge_schema: Add columns that the rows have and the table lacks to the table, at any depth (templated).
        partition_by: Partition columns, when the load creates the table (templated).
        cluster_by: Clustering columns, when the load creates the table: at most four, not together with ``partition_by``
            (templated).
        properties: Table properties, when the load creates the table (templated).
        expect: Data-quality checks on the rows to be written, as Spark SQL, such as ``"_rescued IS NULL"`` (templated); if one
            fails, nothing is committed, and the files still count as new.
        max_files: Largest number of files in one load: the oldest first, or the first by path with ``look_back``; the next run
            loads the next ones (templated).
        max_bytes: Largest number of bytes in one load, in the same order (templated).
        min_age: How many seconds a file must be unchanged before it is loaded, for writers that write under the final name
            (templated).
        look_back: If the paths of files sort by the time at which they arrive, such as ``2026/11/23/...``: how many of the last
            loaded files are listed again, to find files that arrived late; files that sort before these are not listed
            (templated). Default: every file is listed.
        reload: Load files that were loaded before once more (templated): their rows are appended again.
        user_metadata: Free text that the commit records for people to read (templated).
        dry_run: Read and check the files, but commit nothing; ``details`` lists the first hundred of them (templated).
        publish: ``"later"`` stages the commit, invisible to readers until ``DeltaPublishOperator`` makes it from the handle in
            the XCom ``delta_staged`` (templated). Until then, other loads see the files as new; once one of the loads is
            committed, the others conflict. Default: ``"now"``.
    """

    statement_type = CopyIntoStatement
    template_fields: Sequence[str] = (*DeltaJobOperator.template_fields, *argument_names(statement_type))

    def __init__(
        self,
        *,
        path: str,
        format: str,  # noqa: A002 - Spark's name
        pattern: str | None = None,
        options: Mapping[str, str] = {},
        schema: str | None = None,
        select: Sequence[str] = (),
        rescued_column: str | None = None,
        merge_schema: bool | str = False,
        partition_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        properties: Mapping[str, str] = {},
        expect: Sequence[Expectation | str] | Expectation | str = (),
        max_files: int | str | None = None,
        max_bytes: int | str | None = None,
        min_age: float | str = 0,
        look_back: int | str | None = None,
        reload: bool | str = False,
        user_metadata: str | None = None,
        dry_run: bool | str = False,
        publish: str = "now",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.path = path
        self.format = format
        self.pattern = pattern
        self.options = options
        self.schema = schema
        self.select = select
        self.rescued_column = rescued_column
        self.merge_schema = merge_schema
        self.partition_by = partition_by
        self.cluster_by = cluster_by
        self.properties = properties
        self.expect = expect
        self.max_files = max_files
        self.max_bytes = max_bytes
        self.min_age = min_age
        self.look_back = look_back
        self.reload = reload
        self.user_metadata = user_metadata
        self.dry_run = dry_run
        self.publish: Any = publish

    def statement(self) -> Statement:
        """The statement.

        Raises:
            RelativePathError: The path is relative: the job would resolve it to another folder.
        """
        if isinstance(self.path, str) and not is_template(self.path):
            absolute(self.path, "no connection gives a root to the files of a COPY INTO")
        return super().statement()
