"""What goes wrong around a submit.

::

    DeltaError
    ├── DeltaConnectionError   the connection of the tables, or of their storage, cannot be used
    ├── TablesNotVisibleError  a worker was asked for what only jobs can see
    ├── ExposedSecretError     a secret stands where others can read it
    ├── SparkTargetError       the connection does not lead to a Spark that can run the job
    ├── ScratchUriNeededError  there is no place where the job could leave its result
    ├── JobNotSubmittedError   the result of a job is asked for that nobody has submitted
    └── DriverLostError        the driver on the cluster ended, or was ended, without a result   (retryable)
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors import DeltaError


@dataclass(kw_only=True, eq=False)
class DeltaConnectionError(DeltaError):
    """The connection of the tables, or the one of their storage, is missing or says what cannot be meant.

    Attributes:
        cure: What to do about it.
    """

    code = "DELTA_CONNECTION"
    message = "the connection {conn_id!r} cannot be used: {detail}"
    remedy = "{cure}"
    conn_id: str
    detail: str
    cure: str


@dataclass(kw_only=True, eq=False)
class TablesNotVisibleError(DeltaError):
    """The Airflow workers have no access to tables, as the connection or the configuration says, and were asked to look."""

    code = "DELTA_TABLES_NOT_VISIBLE"
    message = "{table} cannot be looked at: the connection {conn_id!r} says that Airflow's workers do not see the tables"
    remedy = "let a Spark job do it (engine='spark'), or give the workers access and set workers_see_tables"
    conn_id: str
    table: str


@dataclass(kw_only=True, eq=False)
class ExposedSecretError(DeltaError):
    """A secret stands where it would become an argument or a setting of Spark, which others can read.

    Attributes:
        places: Where.
    """

    code = "DELTA_EXPOSED_SECRET"
    message = "there is a secret in {places}, which would be an argument or a setting of Spark for all to read"
    remedy = (
        "take it out, and use the delta connection's storage connection, the identity of the machines, a Kubernetes secret "
        "(spark.kubernetes.driver.secretKeyRef.*, executor too) or a Hadoop credential provider"
    )
    places: tuple[str, ...]


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


@dataclass(kw_only=True, eq=False)
class DriverLostError(DeltaError):
    """The driver on the cluster left no result, and the log holds no commit of its task."""

    code = "DELTA_DRIVER_LOST"
    retryable = True
    message = "the job of {table} left no result: {detail}"
    remedy = "look into the driver's log on the cluster; a retry commits once, also when that driver is still at work"
    table: str
    detail: str


@dataclass(kw_only=True, eq=False)
class JobNotSubmittedError(DeltaError):
    """There is no task whose job's result could be fetched."""

    code = "DELTA_JOB_NOT_SUBMITTED"
    message = "nobody has submitted the job of {table}: {detail}"
    remedy = (
        "put the result's task behind the one that submits, and give its operator arguments and pre_execute of job.to_submit()"
    )
    table: str
    detail: str
