"""Manifests as a task."""

from __future__ import annotations

from airflow_delta.core.statements import ManifestStatement
from airflow_delta.operators.core import DeltaCoreOperator


class DeltaManifestOperator(DeltaCoreOperator):
    """Write symlink manifests: lists of a Delta table's files for readers of Parquet and Hive partitions that lack Delta.

    Args:
        table: URI of the table's root (templated).
    """

    statement_type = ManifestStatement
