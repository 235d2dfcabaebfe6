"""Every error of the Delta log and of the transactions on it, as one tree.

::

    DeltaError
    ├── TableNotFoundError             no Delta log under the path
    ├── TableExistsError               a create met a table
    ├── LocationNotEmptyError          a create met files of no table
    ├── InvalidProtocolError           a protocol that contradicts itself
    ├── VersionNotFoundError           a version that the log does not hold
    ├── TimestampOutOfRangeError       a time before the first or after the last commit
    ├── RunCommitNotFoundError         no commit of the run whose version was requested
    ├── TableReplacedError             a pinned version that belonged to another table
    ├── TablesInMotionError            no common point in time for all tables        (retryable)
    ├── TokenHistoryLostError          commits among which a task's own could be were cleaned up
    ├── CorruptLogError                a log file that cannot be read for what it should be
    │   ├── LogGapError                a commit file is missing between others
    │   ├── StagedCommitDamagedError   the document of a staged commit
    │   └── UnfinishedCommitError      an incomplete commit file                      (retryable)
    ├── CorruptDataFileError           a data file that cannot be read for what the log says
    │   └── MissingDataFileError       a data file that is not there
    ├── ChangeDataNotRecordedError     changes of a version that kept no change data feed
    ├── ChangeSchemaError              changes that another schema cannot show
    ├── LegacyCalendarError            a data file with ancient dates of the Julian calendar
    ├── UnsupportedFeatureError
    │   ├── UnsupportedReaderFeatureError
    │   │   └── CatalogRequiredError   a catalog-managed table opened by its path
    │   └── UnsupportedWriterFeatureError
    ├── TableRedirectedError           a table in whose place another one is to be used
    ├── UnsupportedStorageError        a filesystem without the guarantees that a log needs
    ├── StorageAccessError             a storage that refused: no bucket, no permission
    │   ├── CredentialsExpiredError    credentials that were valid once              (retryable)
    │   └── StorageFullError           no space is left, nothing was written
    ├── AccessDeniedError              a storage that refused a job
    ├── NotCatalogManagedError         a table opened through a catalog that does not manage it
    ├── AnotherManagedTableError       a catalog manages another table than the one that lies there
    ├── MaintenanceNotPermittedError   work on a catalog-managed table that is its catalog's
    ├── CatalogAnswerError             a catalog that answers what cannot be
    ├── CommitRefusedError             a commit that the catalog never takes
    ├── PublishedCommitError           another file lies where a ratified commit is published
    ├── PathOutsideTableError          a file outside of the table that names it
    ├── StorageUnavailableError        a storage that does not answer                (retryable)
    ├── InvalidStatementError          an invalid statement
    │   └── SqlTextError               a text outside of the grammar
    ├── InvalidPredicateError          SQL text that is not a predicate on this table, or not decidable here
    ├── AmbiguousColumnError           a name that differs in case from several columns
    ├── InvalidSchemaError             a schema that cannot be read
    ├── InvalidPartitionValueError     a partition value not of its column's type
    │   └── UnwritablePartitionValueError  one without a text for the log
    ├── UnsupportedTypeError           a type that Arrow or Delta does not have
    ├── PackageTooOldError             a package older than the least one
    ├── SchemaMismatchError            rows that do not fit the table
    ├── ConstraintViolatedError        rows that break NOT NULL, an invariant or the replaced range
    ├── InvalidTableDefinitionError    what no table can be
    ├── RelativePathError              a table by a relative path, where nothing says what it is relative to
    ├── InvalidTableChangeError        a change that the table, as it is, does not allow
    ├── InvalidTablePropertyError      a property that does not exist, or cannot have the value
    ├── FeatureDropError               a table feature that cannot be dropped, or not yet
    │   ├── FeatureDependencyError     other features require it
    │   └── FeatureInHistoryError      older versions use it
    ├── IcebergCompatError             a table that cannot be read as an Iceberg table, as it says
    ├── AppendOnlyTableError           a change of a table that only takes appends
    ├── DuplicateActionError           one commit that names a file twice
    ├── InvalidCommitError             one commit that breaks a rule of the protocol
    ├── MissingRecordCountError        an added file lacks its number of rows
    ├── MultipleSourceRowsMatchedError a MERGE that is ambiguous
    ├── ExpectationFailedError         an expectation failed; nothing was committed
    ├── RetentionTooShortError         a vacuum that would break readers
    ├── VacuumLiteImpossibleError      commits that a lite vacuum needs were cleaned up
    ├── VacuumIncompleteError          the storage did not delete all files         (retryable)
    ├── TableNotDeletedError           files of a dropped table that others may need
    ├── DeletionIncompleteError        the storage did not delete a dropped table whole (retryable)
    ├── PinNotRegisteredError          a pin that could not be written beside its table
    ├── StagedCommitNotFoundError      nothing is staged under the id
    ├── StagedCommitExpiredError       a staged commit whose files may be gone
    ├── StagedCommitOutdatedError      a staged commit that another commit forbids
    ├── StagedCommitDiscardedError     a staged commit that was discarded
    ├── StagedCommitPublishedError     a staged commit that was published
    ├── StagedCommitPendingError       a staged commit that is being published      (retryable)
    ├── PublishIncompleteError         some tables of a set are published, some not (retryable)
    ├── DataFilesMissingError          a version whose files were deleted
    ├── LoadedFilesLostError           files that COPY INTO may have loaded before  (retryable)
    ├── CloneTargetNotEmptyError       a clone that would hide rows
    ├── NotConvertibleError            Parquet files that do not make up one table
    ├── ManifestUnsupportedError       manifests would show wrong rows
    ├── IcebergConversionError         a table of which no Iceberg metadata can be written
    ├── CommitConflictError            a commit that won forbids this one           (retryable)
    │   ├── ConcurrentWriteError
    │   ├── ProtocolChangedError
    │   ├── MetadataChangedError
    │   ├── ConcurrentDomainMetadataError
    │   ├── ConcurrentTransactionError
    │   ├── ConcurrentAppendError
    │   ├── ConcurrentDeleteReadError
    │   └── ConcurrentDeleteDeleteError
    ├── CommitAttemptsExhaustedError   others were faster each time                 (retryable)
    └── CommitStateUnknownError        the answer was lost, and the log did not show the outcome (retryable)

Errors above the core (jobs, Airflow) hang off the same root. Each error is a keyword-only dataclass: its fields are what a
program requests, its text is what a person reads and ends in a remedy, and both survive pickling and the JSON of a job's
result document.
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
