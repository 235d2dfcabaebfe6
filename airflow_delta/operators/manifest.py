"""Manifests as a task."""

from __future__ import annotations

from airflow_delta.core.statements import ManifestStatement
from airflow_delta.operators.core import DeltaCoreOperator


class DeltaManifestOperator(DeltaCoreOperator):
    """List the files of a Delta table for readers that know Parquet and Hive partitions, but not Delta (symlink manifests).

    Args:
        table: URI of the table's root (templated).
    """

    statement_type = ManifestStatement
