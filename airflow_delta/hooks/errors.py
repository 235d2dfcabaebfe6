"""What goes wrong before anything is submitted.

::

    DeltaError
    ├── SparkTargetError       the connection does not lead to a Spark that can run the job
    └── ScratchUriNeededError  there is no place where the job could leave its result
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors import DeltaError


@dataclass(kw_only=True, eq=False)
class SparkTargetError(DeltaError):
    """The Spark connection is missing, or names a Spark that cannot run Python jobs from here.

    Attributes:
        cure: What to do about it.
    """

    code = "DELTA_SPARK_TARGET"
    message = "the Spark connection {conn_id!r} cannot be used: {detail}"
    remedy = "{cure}"
    conn_id: str
    detail: str
    cure: str


@dataclass(kw_only=True, eq=False)
class ScratchUriNeededError(DeltaError):
    """The job has no place for its result: beside a table is one, but here there is no table (or it cannot be seen)."""

    code = "DELTA_SCRATCH_URI_NEEDED"
    message = "the job of {table} has nowhere to leave its result: {detail}"
    remedy = "set scratch_uri on the operator, or [delta] scratch_uri, to a place that Spark and the Airflow worker share"
    table: str
    detail: str
