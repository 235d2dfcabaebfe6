"""Data operations on Spark DataFrames: reading, writing, merging, compacting. No Airflow, no Delta JAR.

Public names for scripts: ``DeltaTable`` and its builders, ``delta_reader``, ``delta_writer``, ``sql``, and ``register`` for
``format("delta")``. They are imported on first access, so that importing a submodule loads nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_delta.spark.data_source import DeltaDataSource, configure_spark_with_delta_pip, register
    from airflow_delta.spark.delta_table.delta_table import DeltaTable
    from airflow_delta.spark.delta_table.frame_reader import DeltaFrameReader, delta_reader
    from airflow_delta.spark.delta_table.frame_writer import DeltaFrameWriter, delta_writer
    from airflow_delta.spark.delta_table.merge_builder import DeltaMergeBuilder
    from airflow_delta.spark.delta_table.optimize_builder import DeltaOptimizeBuilder
    from airflow_delta.spark.delta_table.sql import sql
    from airflow_delta.spark.delta_table.table_builder import DeltaTableBuilder, IdentityGenerator

__all__ = [
    "DeltaDataSource",
    "DeltaFrameReader",
    "DeltaFrameWriter",
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
    "configure_spark_with_delta_pip",
    "delta_reader",
    "delta_writer",
    "register",
    "sql",
]

_MODULES = {
    "DeltaDataSource": "data_source",
    "DeltaFrameReader": "delta_table.frame_reader",
    "DeltaFrameWriter": "delta_table.frame_writer",
    "DeltaMergeBuilder": "delta_table.merge_builder",
    "DeltaOptimizeBuilder": "delta_table.optimize_builder",
    "DeltaTable": "delta_table.delta_table",
    "DeltaTableBuilder": "delta_table.table_builder",
    "IdentityGenerator": "delta_table.table_builder",
    "configure_spark_with_delta_pip": "data_source",
    "delta_reader": "delta_table.frame_reader",
    "delta_writer": "delta_table.frame_writer",
    "register": "data_source",
    "sql": "delta_table.sql",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
