"""Errors of operations on the log as a whole: vacuum, restore, clone, conversion, manifests."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors.base import DeltaError


@dataclass(kw_only=True, eq=False)
class VacuumLiteImpossibleError(DeltaError):
    """Commits that a lite vacuum needs were cleaned up. Spark: ``DELTA_CANNOT_VACUUM_LITE``.

    Attributes:
        version: The first of the missing commits.
        earliest: The earliest commit that the log still holds.
    """

    code = "DELTA_CANNOT_VACUUM_LITE"
    message = "the log of {table} begins at version {earliest}, but a lite vacuum needs it from version {version} on"
    remedy = "run a full vacuum once; later lite ones continue from there"
    table: str
    version: int
    earliest: int


@dataclass(kw_only=True, eq=False)
class VacuumIncompleteError(DeltaError):
    """The storage did not delete all files.

    Attributes:
        deleted: Number of files that were deleted.
        left: Number of files that were not; some of those requested in the same call may be gone.
        example: One of the files left.
    """

    code = "DELTA_VACUUM_INCOMPLETE"
    retryable = True
    message = "vacuum of {table} deleted {deleted} files and left {left}, for example {example!r}: {detail}"
    remedy = "let its files be deleted, where the storage refuses it, and run it again: it continues with the remaining files"
    table: str
    deleted: int
    left: int
    example: str
    detail: str


@dataclass(kw_only=True, eq=False)
class TableNotDeletedError(DeltaError):
    """The files of a table were not deleted, because they may still be in use. Nothing was deleted.

    Attributes:
        cure: What to do about it.
    """

    code = "DELTA_TABLE_NOT_DELETED"
    message = "the files of {table} were not deleted: {detail}"
    remedy = "{cure}"
    table: str
    detail: str
    cure: str


@dataclass(kw_only=True, eq=False)
class DeletionIncompleteError(DeltaError):
    """The storage did not delete all files of a dropped table.

    Attributes:
        deleted: Number of files that were deleted.
        left: Number of files that were not; some of those requested in the same call may be gone.
        example: One of the files left.
    """

    code = "DELTA_DELETION_INCOMPLETE"
    retryable = True
    message = "of the files of {table}, {deleted} were deleted and {left} are left, for example {example!r}: {detail}"
    remedy = "let its files be deleted, where the storage refuses it, and run it again: it continues with the remaining files"
    table: str
    deleted: int
    left: int
    example: str
    detail: str


@dataclass(kw_only=True, eq=False)
class DataFilesMissingError(DeltaError):
    """A version cannot be restored: its files were deleted. Spark: ``DELTA_MISSING_FILES_UNEXPECTED_VERSION`` and the like.

    Attributes:
        missing: Number of missing files: data files and files of deletion vectors.
        examples: Some of their paths, as in the log.
    """

    code = "DELTA_DATA_FILES_MISSING"
    message = "version {version} of {table} cannot be restored: {missing} of its files are gone, for example {examples}"
    remedy = "restore a later version, or pass ignore_missing_files and lose the rows that need these files"
    table: str
    version: int
    missing: int
    examples: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class CloneTargetNotEmptyError(DeltaError):
    """A clone would replace a table that has rows. Spark: ``DELTA_UNSUPPORTED_NON_EMPTY_CLONE``."""

    code = "DELTA_UNSUPPORTED_NON_EMPTY_CLONE"
    message = "{table} has {files} files, but a clone can only replace an empty table"
    remedy = "clone to another path, or delete the rows of the table first"
    table: str
    files: int


@dataclass(kw_only=True, eq=False)
class NotConvertibleError(DeltaError):
    """A directory of Parquet files cannot become one table.

    Spark: ``DELTA_FAILED_INFER_SCHEMA``, ``DELTA_FAILED_MERGE_SCHEMA_FILE``,
    ``DELTA_UNEXPECTED_PARTITION_COLUMN_FROM_FILE_NAME``.

    Attributes:
        problems: One line for each problem.
        cure: What would make the conversion possible.
    """

    code = "DELTA_NOT_CONVERTIBLE"
    message = "{table} cannot be converted: {problems}"
    remedy = "{cure}"
    table: str
    problems: tuple[str, ...]
    cure: str = "name every partition column with its type, and rewrite or move away the files that do not fit"


@dataclass(kw_only=True, eq=False)
class ManifestUnsupportedError(DeltaError):
    """Readers of manifests would see wrong rows.

    Spark: ``DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING``, ``DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS``.
    """

    code = "DELTA_UNSUPPORTED_MANIFEST_GENERATION"
    message = "no manifest can be generated for {table}: {detail}"
    remedy = "set delta.compatibility.symlinkFormatManifest.enabled to false, or rewrite the table without the feature"
    table: str
    detail: str


@dataclass(kw_only=True, eq=False)
class IcebergConversionError(DeltaError):
    """The Iceberg metadata of a table was not written; the Delta table is unchanged.

    Attributes:
        cure: What would make it possible.
    """

    code = "DELTA_ICEBERG_CONVERSION"
    message = "no Iceberg metadata can be written for {table}: {detail}"
    remedy = "{cure}"
    table: str
    detail: str
    cure: str


@dataclass(kw_only=True, eq=False)
class PinNotRegisteredError(DeltaError):
    """The pin could not be written into the folder of the table, although ``must_protect`` was set."""

    code = "DELTA_PIN_NOT_REGISTERED"
    message = "version {version} of {table} cannot be protected from vacuums: {detail}"
    remedy = "give this identity write access to {table}/_airflow_delta, or set must_protect=False to pin without protection"
    table: str
    version: int
    detail: str


@dataclass(kw_only=True, eq=False)
class LoadedFilesLostError(DeltaError):
    """It is unknown which files COPY INTO has loaded into the table; loading all of them again would duplicate rows."""

    code = "DELTA_LOADED_FILES_LOST"
    retryable = True  # another load may have merged the parts since the log was read
    message = "the list of files that were loaded into {table} is incomplete: {detail}"
    remedy = (
        "bring {table}/_airflow_delta/loaded back (a copy of a table needs it too); or, where every file found may be loaded "
        "again, pass reload=True, which starts a new list"
    )
    table: str
    detail: str
