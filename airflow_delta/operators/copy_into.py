"""Loading new files as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_delta.core.statements import CopyIntoStatement, Expectation, Statement
from airflow_delta.core.statements.fields import is_template
from airflow_delta.core.storage.table_uri import absolute
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.job import DeltaJobOperator


class DeltaCopyIntoOperator(DeltaJobOperator):
    """Load the files below a path that were not loaded before into a Delta table, each file once, as one commit.

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

    The commit that adds the rows also records which files they came from, so that no kill, retry or second task loads a file
    twice or leaves one out. The first load creates the table; where nothing is new, nothing is committed. A file is known by
    its path: one that has changed since is not loaded again, but counted (``numChangedFiles``). Files that begin with ``_`` or
    a dot, or lie in such a folder, are not looked at: writers should write under such a name, and rename when they are done.

    The metrics are ``numSourceFiles`` and ``numSourceBytes`` (loaded), ``numKnownFiles`` (loaded before),
    ``numChangedFiles``, ``numWaitingFiles`` (left by limits), ``numOutputRows`` and ``numRescuedRows``.

    Args:
        table: URI of the table's root, or its name below the table root of the connection (templated).
        path: URI of the folder with the files (templated). Folders ``column=value`` right below it become columns.
        format: Spark's name of the format: ``csv``, ``json``, ``parquet``, or ``avro`` where Spark has its package (templated).
        pattern: Which files, as a glob below the path such as ``2026-*/**/*.csv``; without a slash it is a glob of their names,
            in any folder (templated). Default: all.
        options: The options of Spark's reader (templated).
        schema: Columns as Spark DDL (templated). Default: Spark infers them from the files of each load, which for JSON, and
            for CSV with the option ``inferSchema``, means reading them twice, and other types for other files; without that
            option all columns of CSV are texts.
        select: Spark SQL expressions over the rows, such as ``["*", "_metadata.file_path AS file"]`` (templated). Default: all
            columns.
        rescued_column: Name of a text column for rows of CSV, JSON or XML that do not fit the columns: it holds the whole row
            as it was, and what can be read of it stays in its columns (templated). Default: the first such row fails the task.
        merge_schema: Add the columns that only the rows have to the table, at any depth (templated).
        partition_by: Partition columns when the table is made (templated).
        cluster_by: Clustering columns when the table is made, at most four; not together with ``partition_by`` (templated).
        properties: Table properties when the table is made (templated).
        expect: Data-quality checks on the rows to be written, as Spark SQL, such as ``"_rescued IS NULL"`` (templated); if one
            fails, nothing is committed, and the files are still new.
        max_files: Most files of one load, oldest first, or by path with ``look_back``; the next run takes the next ones
            (templated).
        max_bytes: Most bytes of one load, likewise (templated).
        min_age: Seconds since its last change before a file is loaded, where writers write under the final name (templated).
        look_back: Where paths ascend with the time files come, such as ``2026/11/23/...``: how many of the last loaded files
            are listed again, to find those that came late; what sorts before them is not listed (templated). Default: every
            file is listed.
        reload: Load the files again that were loaded before (templated): their rows are appended once more.
        user_metadata: Text that the commit carries for people (templated).
        dry_run: Read and check the files, but commit nothing; ``details`` lists the first hundred of them (templated).
        publish: ``"later"`` stages the commit, to be made by ``DeltaPublishOperator``: its handle is the XCom ``delta_staged``,
            and nobody sees it before (templated). Until then the files are new to other loads; the load that is committed first
            forbids the others. Default: ``"now"``.
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
        """What is to be loaded.

        Raises:
            RelativePathError: The path is relative: the job would find another folder, or none.
        """
        if isinstance(self.path, str) and not is_template(self.path):
            absolute(self.path, "no connection gives a root to the files of a COPY INTO")
        return super().statement()
