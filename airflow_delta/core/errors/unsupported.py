"""Errors of what this version of the package, or a filesystem, does not support."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors.base import DeltaError


@dataclass(kw_only=True, eq=False)
class UnsupportedFeatureError(DeltaError):
    """The table requires what this version does not know. Never raised itself."""

    code = "DELTA_UNSUPPORTED_FEATURE"
    message = "{table} uses {features}, which this version of airflow-delta does not support"
    remedy = "upgrade airflow-delta, or drop the feature from the table"
    table: str
    features: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class UnsupportedReaderFeatureError(UnsupportedFeatureError):
    """Reading would give wrong rows. Spark: ``DELTA_UNSUPPORTED_FEATURES_FOR_READ``."""

    code = "DELTA_UNSUPPORTED_FEATURES_FOR_READ"
    message = "{table} cannot be read: it needs {features}, which this version of airflow-delta does not support"


@dataclass(kw_only=True, eq=False)
class UnsupportedWriterFeatureError(UnsupportedFeatureError):
    """Writing would violate a guarantee of the table. Spark: ``DELTA_UNSUPPORTED_FEATURES_FOR_WRITE``."""

    code = "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"
    message = "{table} cannot be written: it needs {features}, which this version of airflow-delta does not support"


@dataclass(kw_only=True, eq=False)
class TableRedirectedError(DeltaError):
    """The table says that another one is to be used in its place.

    Attributes:
        target: The other table, as this one names it.
        state: How far the redirection is set up; empty where the table does not say it.
        feature: The table feature that requires it.
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
    """A type without a counterpart: of Delta in Arrow, or of Arrow in Delta."""

    code = "DELTA_UNSUPPORTED_TYPE"
    message = "values of the type {type} cannot be read or written"
    remedy = "leave the column out, or cast it to a type of Delta Lake"
    type: str


@dataclass(kw_only=True, eq=False)
class PackageTooOldError(DeltaError):
    """A package is older than what the shipped code needs; found before any work is done.

    Attributes:
        found: The version.
        needed: The least version.
        python: Host and path of the Python that has the package.
    """

    code = "DELTA_PACKAGE_TOO_OLD"
    message = "expected {package} {needed} or newer, found {found} ({python})"
    remedy = "install a newer one there; executors can get it with the job: airflow-delta pack"
    package: str
    found: str
    needed: str
    python: str
