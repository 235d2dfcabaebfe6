"""Errors for what this version of the package, or a filesystem, does not support."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors.base import DeltaError


@dataclass(kw_only=True, eq=False)
class UnsupportedFeatureError(DeltaError):
    """The table requires a feature that this version does not support. Only subclasses are raised."""

    code = "DELTA_UNSUPPORTED_FEATURE"
    message = "{table} uses {features}, which this version of airflow-delta does not support"
    remedy = "upgrade airflow-delta, or drop the feature from the table"
    table: str
    features: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class UnsupportedReaderFeatureError(UnsupportedFeatureError):
    """The table needs an unsupported reader feature. Spark: ``DELTA_UNSUPPORTED_FEATURES_FOR_READ``."""

    code = "DELTA_UNSUPPORTED_FEATURES_FOR_READ"
    message = "{table} cannot be read: it needs {features}, which this version of airflow-delta does not support"


@dataclass(kw_only=True, eq=False)
class UnsupportedWriterFeatureError(UnsupportedFeatureError):
    """The table needs an unsupported writer feature. Spark: ``DELTA_UNSUPPORTED_FEATURES_FOR_WRITE``."""

    code = "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"
    message = "{table} cannot be written: it needs {features}, which this version of airflow-delta does not support"


@dataclass(kw_only=True, eq=False)
class TableRedirectedError(DeltaError):
    """The table redirects to another one.

    Attributes:
        target: The other table, as this one names it.
        state: State of the redirection; empty if the table does not record it.
        feature: The table feature that requires the redirection.
    """

    code = "DELTA_TABLE_REDIRECTED"
    message = "{table} is redirected to {target} ({feature}, state {state!r})"
    remedy = "use {target} instead, if you trust those who can write to {table}"
    table: str
    target: str
    state: str
    feature: str


@dataclass(kw_only=True, eq=False)
class UnsupportedStorageError(DeltaError):
    """The filesystem cannot hold a log safely, or its package is not installed."""

    code = "DELTA_UNSUPPORTED_STORAGE"
    message = "{uri} cannot be used: {detail}"
    remedy = "{cure}"
    uri: str
    detail: str
    cure: str = "use a filesystem with an atomic create, or pass DeltaLog.for_table your own LogStore (store=)"


@dataclass(kw_only=True, eq=False)
class UnsupportedTypeError(DeltaError):
    """A type without a counterpart: a Delta type in Arrow, or an Arrow type in Delta."""

    code = "DELTA_UNSUPPORTED_TYPE"
    message = "values of the type {type} cannot be read or written"
    remedy = "leave the column out, or cast it to a type of Delta Lake"
    type: str


@dataclass(kw_only=True, eq=False)
class PackageTooOldError(DeltaError):
    """An installed package is older than this code requires; found before any work is done.

    Attributes:
        found: The installed version.
        needed: The oldest supported version.
        python: Host and path of the Python that has the package.
    """

    code = "DELTA_PACKAGE_TOO_OLD"
    message = "expected {package} {needed} or newer, found {found} ({python})"
    remedy = "install a newer one there; executors can get it with the job: airflow-delta pack"
    package: str
    found: str
    needed: str
    python: str
