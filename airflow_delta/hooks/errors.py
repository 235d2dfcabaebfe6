"""Errors of connections, and of submitting a job.

::

    DeltaError
    ├── DeltaConnectionError   the connection of the tables, or of their storage, cannot be used
    ├── TablesNotVisibleError  the workers have no access to the tables
    ├── ExposedSecretError     a secret is in a place where others can read it
    ├── SparkTargetError       the Spark connection cannot run the job
    ├── ScratchUriNeededError  the job has no location for its result
    ├── JobNotSubmittedError   the job whose result is expected was not submitted
    ├── AirflowFeatureMissingError  an argument needs a newer Airflow
    ├── StateFileError         the state of a task or watcher cannot be stored     (retryable)
    └── DriverLostError        the driver ended, or was ended, without a result   (retryable)
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.catalogs.errors import CatalogUnavailableError
from airflow_delta.core.errors import CredentialsExpiredError, DeltaError

MAY_PASS = (OSError, CredentialsExpiredError, CatalogUnavailableError)
"""Errors that a sensor or trigger waits out; an unreachable object store (``StorageUnavailableError``) is an ``OSError``."""


@dataclass(kw_only=True, eq=False)
class DeltaConnectionError(DeltaError):
    """The connection of the tables, or the one of their storage, is missing or invalid.

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
    """A worker needs to read a table, but the connection or the configuration says that workers have no access to tables."""

    code = "DELTA_TABLES_NOT_VISIBLE"
    message = (
        "{table} cannot be read here: the connection {conn_id!r} or [delta] workers_see_tables says that workers have no access"
    )
    remedy = "use engine='spark' where the task has it, or give the workers access to the tables and set workers_see_tables"
    conn_id: str
    table: str


@dataclass(kw_only=True, eq=False)
class ExposedSecretError(DeltaError):
    """A secret would become an argument or a setting of Spark, which others can read.

    Attributes:
        places: Where the secrets were found; never the secrets.
    """

    code = "DELTA_EXPOSED_SECRET"
    message = "found a secret in {places}, which would become an argument or a setting of Spark that others can read"
    remedy = (
        "remove it, and use the delta connection's storage connection, the identity of the machines, a Kubernetes secret "
        "(spark.kubernetes.driver.secretKeyRef.*, executor too), a Hadoop credential provider, or for packages a file of Ivy's "
        "settings (spark.jars.ivySettings)"
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
    """The job has no location for its result: the default is below the table, which does not exist or cannot be read here."""

    code = "DELTA_SCRATCH_URI_NEEDED"
    message = "the job of {table} needs a scratch_uri for its result: {detail}"
    remedy = "set scratch_uri on the operator, or [delta] scratch_uri, to a location that Spark and the Airflow worker share"
    table: str
    detail: str


@dataclass(kw_only=True, eq=False)
class DriverLostError(DeltaError):
    """The driver, on the cluster or beside the worker, left no result, and the log holds no commit of its task."""

    code = "DELTA_DRIVER_LOST"
    retryable = True
    message = "the job of {table} left no result: {detail}"
    remedy = "read the driver's log; a retry is safe: it commits once, also when that driver still runs"
    table: str
    detail: str


@dataclass(kw_only=True, eq=False)
class JobNotSubmittedError(DeltaError):
    """No task has submitted the job whose result is to be fetched."""

    code = "DELTA_JOB_NOT_SUBMITTED"
    message = "the job of {table} was not submitted: {detail}"
    remedy = (
        "put the result task downstream of the task that submits, and give that operator arguments and pre_execute of "
        "job.to_submit()"
    )
    table: str
    detail: str


@dataclass(kw_only=True, eq=False)
class AirflowFeatureMissingError(DeltaError):
    """An argument needs a feature that this version of Airflow does not have; found when the DAG is parsed.

    Attributes:
        feature: The argument that needs the feature.
        version: The version of Airflow.
        needed: The first version that has the feature.
    """

    code = "DELTA_AIRFLOW_FEATURE_MISSING"
    message = "{feature} needs Airflow {needed} or newer; this is Airflow {version}"
    remedy = "leave it out, or use a newer Airflow"
    feature: str
    version: str
    needed: str


@dataclass(kw_only=True, eq=False)
class StateFileError(DeltaError):
    """The file in which a task or a watcher keeps its state, before Airflow 3.3, cannot be read or written.

    Attributes:
        place: The folder of the file.
    """

    code = "DELTA_STATE_FILE"
    retryable = True
    message = (
        "the task keeps its state in a file below {place}, since this Airflow has no store for it, and that failed: {detail}"
    )
    remedy = (
        "set scratch_uri on the delta connection, or [delta] scratch_uri, to a location that workers and triggerers can write, "
        "or use Airflow 3.3"
    )
    place: str
    detail: str
