"""All errors of the Delta log and its transactions, as one class hierarchy.

::

    DeltaError
    ├── TableNotFoundError             no Delta log at the path
    ├── TableExistsError               the table to be created exists already
    ├── LocationNotEmptyError          the place of a new table holds other files
    ├── InvalidProtocolError           a protocol that contradicts itself
    ├── VersionNotFoundError           a version that the log does not hold
    ├── TimestampOutOfRangeError       a time before the first or after the last commit
    ├── RunCommitNotFoundError         the task run whose version was requested has no commit
    ├── TableReplacedError             another table is now in the place of a pinned one
    ├── TablesInMotionError            no common point in time found for all tables  (retryable)
    ├── TokenHistoryLostError          commits among which a task's own could be were cleaned up
    ├── CorruptLogError                a log file with invalid content
    │   ├── LogGapError                a commit file is missing between others
    │   ├── StagedCommitDamagedError   the document of a staged commit is invalid
    │   └── UnfinishedCommitError      the newest commit file is incomplete          (retryable)
    ├── CorruptDataFileError           a data file that does not match the log
    │   └── MissingDataFileError       a data file that does not exist
    ├── ChangeDataNotRecordedError     the change data feed was not enabled at a version
    ├── ChangeSchemaError              changes that do not fit the schema they are read with
    ├── LegacyCalendarError            a data file with ancient dates in the Julian calendar
    ├── UnsupportedFeatureError
    │   ├── UnsupportedReaderFeatureError
    │   │   └── CatalogRequiredError   a catalog-managed table opened by its path
    │   └── UnsupportedWriterFeatureError
    ├── TableRedirectedError           a table that redirects to another one
    ├── UnsupportedStorageError        a filesystem without the guarantees that a log needs
    ├── StorageAccessError             the storage denied access: no bucket, no permission
    │   ├── CredentialsExpiredError    the credentials are no longer valid           (retryable)
    │   └── StorageFullError           no space is left; nothing was written
    ├── AccessDeniedError              the storage denied access to a job
    ├── NotCatalogManagedError         a table opened through a catalog that does not manage it
    ├── AnotherManagedTableError       the catalog manages another table at this place
    ├── MaintenanceNotPermittedError   the catalog does not permit this maintenance to clients
    ├── CatalogAnswerError             an invalid answer of a catalog
    ├── CommitRefusedError             the catalog will never accept this commit
    ├── PublishedCommitError           another file is in the place of a ratified commit
    ├── PathOutsideTableError          a table that names a file outside of its root
    ├── StorageUnavailableError        the storage does not answer                   (retryable)
    ├── InvalidStatementError          an invalid statement
    │   └── SqlTextError               SQL text that the grammar here does not cover
    ├── InvalidPredicateError          not a predicate on this table, or not decidable here
    ├── AmbiguousColumnError           a name that differs in case from several columns
    ├── InvalidSchemaError             an invalid schema text
    ├── InvalidPartitionValueError     a partition value that is not of its column's type
    │   └── UnwritablePartitionValueError  a value that the log cannot represent
    ├── UnsupportedTypeError           a type without a counterpart in Arrow or in Delta
    ├── PackageTooOldError             an installed package that is too old
    ├── SchemaMismatchError            rows that do not fit the table
    ├── ConstraintViolatedError        rows that violate NOT NULL, an invariant or replace_where
    ├── InvalidTableDefinitionError    an invalid table definition
    ├── RelativePathError              a relative path without a base to resolve it against
    ├── InvalidTableChangeError        a change that the table in its present state does not allow
    ├── InvalidTablePropertyError      an unknown table property, or an invalid value
    ├── FeatureDropError               a table feature that cannot be dropped, or not yet
    │   ├── FeatureDependencyError     other features require it
    │   └── FeatureInHistoryError      older versions use it
    ├── IcebergCompatError             the table violates its Iceberg compatibility
    ├── AppendOnlyTableError           rows removed from or changed in an append-only table
    ├── DuplicateActionError           a commit that names a file twice
    ├── InvalidCommitError             a commit that breaks a rule of the protocol
    ├── MissingRecordCountError        an added file lacks its number of rows
    ├── MultipleSourceRowsMatchedError a MERGE whose result would be ambiguous
    ├── ExpectationFailedError         an expectation failed; nothing was committed
    ├── RetentionTooShortError         a vacuum that could break readers
    ├── VacuumLiteImpossibleError      commits that a lite vacuum needs were cleaned up
    ├── VacuumIncompleteError          the storage did not delete all files          (retryable)
    ├── TableNotDeletedError           files of a dropped table that may still be in use
    ├── DeletionIncompleteError        not all files of a dropped table were deleted (retryable)
    ├── PinNotRegisteredError          a pin that could not be written into the folder of its table
    ├── StagedCommitNotFoundError      nothing is staged under the id
    ├── StagedCommitExpiredError       a staged commit whose files may be gone
    ├── StagedCommitOutdatedError      a staged commit that conflicts with a later one
    ├── StagedCommitDiscardedError     a staged commit that was discarded
    ├── StagedCommitPublishedError     a staged commit that was published
    ├── StagedCommitPendingError       a staged commit that is being published       (retryable)
    ├── PublishIncompleteError         some tables of a set are published, some not  (retryable)
    ├── DataFilesMissingError          a version whose files were deleted
    ├── LoadedFilesLostError           unknown which files COPY INTO has loaded      (retryable)
    ├── CloneTargetNotEmptyError       a clone that would replace a table with rows
    ├── NotConvertibleError            Parquet files that cannot form one table
    ├── ManifestUnsupportedError       manifests would make readers see wrong rows
    ├── IcebergConversionError         Iceberg metadata cannot be written for the table
    ├── CommitConflictError            a concurrent commit conflicts with this one   (retryable)
    │   ├── ConcurrentWriteError
    │   ├── ProtocolChangedError
    │   ├── MetadataChangedError
    │   ├── ConcurrentDomainMetadataError
    │   ├── ConcurrentTransactionError
    │   ├── ConcurrentAppendError
    │   ├── ConcurrentDeleteReadError
    │   └── ConcurrentDeleteDeleteError
    ├── CommitAttemptsExhaustedError   other commits won every attempt               (retryable)
    └── CommitStateUnknownError        no answer; unknown whether the commit exists  (retryable)

Errors of the layers above the core (jobs, Airflow) have the same root. Each error is a keyword-only dataclass: programs read
its fields, people read its text, which ends in a remedy, and both survive pickling and the JSON of a job's result document.
"""

from airflow_delta.core.errors.base import DeltaError
from airflow_delta.core.errors.change_feed import ChangeDataNotRecordedError, ChangeSchemaError
from airflow_delta.core.errors.conflict import (
    CommitAttemptsExhaustedError,
    CommitConflictError,
    CommitStateUnknownError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentDomainMetadataError,
    ConcurrentTransactionError,
    ConcurrentWriteError,
    MetadataChangedError,
    ProtocolChangedError,
)
from airflow_delta.core.errors.managed import (
    AnotherManagedTableError,
    CatalogAnswerError,
    CatalogRequiredError,
    CommitRefusedError,
    MaintenanceNotPermittedError,
    NotCatalogManagedError,
    PublishedCommitError,
)
from airflow_delta.core.errors.operations import (
    CloneTargetNotEmptyError,
    DataFilesMissingError,
    DeletionIncompleteError,
    IcebergConversionError,
    LoadedFilesLostError,
    ManifestUnsupportedError,
    NotConvertibleError,
    PinNotRegisteredError,
    TableNotDeletedError,
    VacuumIncompleteError,
    VacuumLiteImpossibleError,
)
from airflow_delta.core.errors.staging import (
    PublishIncompleteError,
    StagedCommitDamagedError,
    StagedCommitDiscardedError,
    StagedCommitExpiredError,
    StagedCommitNotFoundError,
    StagedCommitOutdatedError,
    StagedCommitPendingError,
    StagedCommitPublishedError,
)
from airflow_delta.core.errors.statement import (
    AmbiguousColumnError,
    AppendOnlyTableError,
    ConstraintViolatedError,
    DuplicateActionError,
    ExpectationFailedError,
    InvalidCommitError,
    InvalidPredicateError,
    InvalidStatementError,
    MissingRecordCountError,
    MultipleSourceRowsMatchedError,
    RelativePathError,
    RetentionTooShortError,
    SchemaMismatchError,
    SqlTextError,
)
from airflow_delta.core.errors.storage import (
    AccessDeniedError,
    CredentialsExpiredError,
    PathOutsideTableError,
    StorageAccessError,
    StorageFullError,
    StorageUnavailableError,
)
from airflow_delta.core.errors.table import (
    CorruptDataFileError,
    CorruptLogError,
    InvalidPartitionValueError,
    InvalidProtocolError,
    InvalidSchemaError,
    LegacyCalendarError,
    LocationNotEmptyError,
    LogGapError,
    MissingDataFileError,
    RunCommitNotFoundError,
    TableExistsError,
    TableNotFoundError,
    TableReplacedError,
    TablesInMotionError,
    TimestampOutOfRangeError,
    TokenHistoryLostError,
    UnfinishedCommitError,
    UnwritablePartitionValueError,
    VersionNotFoundError,
)
from airflow_delta.core.errors.table_change import (
    FeatureDependencyError,
    FeatureDropError,
    FeatureInHistoryError,
    IcebergCompatError,
    InvalidTableChangeError,
    InvalidTableDefinitionError,
    InvalidTablePropertyError,
)
from airflow_delta.core.errors.unsupported import (
    PackageTooOldError,
    TableRedirectedError,
    UnsupportedFeatureError,
    UnsupportedReaderFeatureError,
    UnsupportedStorageError,
    UnsupportedTypeError,
    UnsupportedWriterFeatureError,
)

__all__ = [
    "AccessDeniedError",
    "AmbiguousColumnError",
    "AnotherManagedTableError",
    "AppendOnlyTableError",
    "CatalogAnswerError",
    "CatalogRequiredError",
    "ChangeDataNotRecordedError",
    "ChangeSchemaError",
    "CloneTargetNotEmptyError",
    "CommitAttemptsExhaustedError",
    "CommitConflictError",
    "CommitRefusedError",
    "CommitStateUnknownError",
    "ConcurrentAppendError",
    "ConcurrentDeleteDeleteError",
    "ConcurrentDeleteReadError",
    "ConcurrentDomainMetadataError",
    "ConcurrentTransactionError",
    "ConcurrentWriteError",
    "ConstraintViolatedError",
    "CorruptDataFileError",
    "CorruptLogError",
    "CredentialsExpiredError",
    "DataFilesMissingError",
    "DeletionIncompleteError",
    "DeltaError",
    "DuplicateActionError",
    "ExpectationFailedError",
    "FeatureDependencyError",
    "FeatureDropError",
    "FeatureInHistoryError",
    "IcebergCompatError",
    "IcebergConversionError",
    "InvalidCommitError",
    "InvalidPartitionValueError",
    "InvalidPredicateError",
    "InvalidProtocolError",
    "InvalidSchemaError",
    "InvalidStatementError",
    "InvalidTableChangeError",
    "InvalidTableDefinitionError",
    "InvalidTablePropertyError",
    "LegacyCalendarError",
    "LoadedFilesLostError",
    "LocationNotEmptyError",
    "LogGapError",
    "MaintenanceNotPermittedError",
    "ManifestUnsupportedError",
    "MetadataChangedError",
    "MissingDataFileError",
    "MissingRecordCountError",
    "MultipleSourceRowsMatchedError",
    "NotCatalogManagedError",
    "NotConvertibleError",
    "PackageTooOldError",
    "PathOutsideTableError",
    "PinNotRegisteredError",
    "ProtocolChangedError",
    "PublishIncompleteError",
    "PublishedCommitError",
    "RelativePathError",
    "RetentionTooShortError",
    "RunCommitNotFoundError",
    "SchemaMismatchError",
    "SqlTextError",
    "StagedCommitDamagedError",
    "StagedCommitDiscardedError",
    "StagedCommitExpiredError",
    "StagedCommitNotFoundError",
    "StagedCommitOutdatedError",
    "StagedCommitPendingError",
    "StagedCommitPublishedError",
    "StorageAccessError",
    "StorageFullError",
    "StorageUnavailableError",
    "TableExistsError",
    "TableNotDeletedError",
    "TableNotFoundError",
    "TableRedirectedError",
    "TableReplacedError",
    "TablesInMotionError",
    "TimestampOutOfRangeError",
    "TokenHistoryLostError",
    "UnfinishedCommitError",
    "UnsupportedFeatureError",
    "UnsupportedReaderFeatureError",
    "UnsupportedStorageError",
    "UnsupportedTypeError",
    "UnsupportedWriterFeatureError",
    "UnwritablePartitionValueError",
    "VacuumIncompleteError",
    "VacuumLiteImpossibleError",
    "VersionNotFoundError",
]
