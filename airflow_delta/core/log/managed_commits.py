"""The port to the catalog that manages a table: which commits are ratified, and how the next one becomes so.

Protocol: PROTOCOL.md, "Catalog-managed tables". The catalog is the truth about what is committed; the files of the log follow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol as Port

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.errors import (
    AnotherManagedTableError,
    CatalogRequiredError,
    InvalidTablePropertyError,
    MaintenanceNotPermittedError,
    NotCatalogManagedError,
)
from airflow_delta.core.foreign_values import printable
from airflow_delta.core.log.file_names import commit_path, staged_version
from airflow_delta.core.storage.log_store import FileStatus, LogStore
from airflow_delta.core.table_features.feature import CATALOG_MANAGED, reader_features


class Maintenance(Enum):
    """Work on a table that its catalog must permit; checkpoints, compacted commits and checksums need no permission."""

    VACUUM = "VACUUM"
    LOG_CLEANUP = "log cleanup"
    DATA_LAYOUT = "a change of the data layout (OPTIMIZE, REORG)"


@dataclass(frozen=True, slots=True, kw_only=True)
class RatifiedCommit:
    """A commit that won its version, and that the catalog still keeps: it may be published or not.

    Attributes:
        version: The version that it is.
        file_name: Of the staged commit in ``_delta_log/_staged_commits``; empty where the catalog holds the content itself.
        size: Bytes.
        modification_time: Of the staged commit, milliseconds since the epoch; for an inline commit when it was ratified.
        content: Of an inline commit; None where it is staged.

    Raises:
        ValueError: No staged commit of this version is named so, or neither a name nor a content is given.
    """

    version: int
    file_name: str = ""
    size: int
    modification_time: int
    content: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.content is None and staged_version(self.file_name) != self.version:
            raise ValueError(f"expected the name of a staged commit of version {self.version}, found {self.file_name!r}")
        if self.version < 0 or self.size < 0:
            raise ValueError(f"expected a version and a size of 0 or more, found {self.version} and {self.size}")

    @property
    def status(self) -> FileStatus:
        """The commit as if it were published; the same before and after its publication."""
        return FileStatus(commit_path(self.version), self.size, self.modification_time)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatifiedCommits:
    """What a catalog knows of a table's commits.

    Attributes:
        commits: Those that it still keeps, ascending: every one that is not published is among them.
        latest: The latest ratified version; None where the catalog has ratified none, so that the published files decide.

    Raises:
        ValueError: Two commits are of one version, or one is later than the latest.
    """

    commits: tuple[RatifiedCommit, ...] = ()
    latest: int | None = None

    def __post_init__(self) -> None:
        versions = [commit.version for commit in self.commits]
        if versions != sorted(set(versions)):
            raise ValueError(f"expected ascending versions, each once, found {versions}")
        if versions and versions[-1] > (-1 if self.latest is None else self.latest):
            raise ValueError(f"expected no version after the latest one, {self.latest}, found {versions[-1]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedCommit:
    """A staged commit that asks to become a version.

    Attributes:
        version: The version it asks for: the one after the latest.
        file_name: Its name in ``_delta_log/_staged_commits``.
        size: Bytes.
        modification_time: Of that file, milliseconds since the epoch.
        timestamp: Its in-commit timestamp, milliseconds since the epoch.
        protocol: The protocol that it gives the table; None where it changes none.
        metadata: The metadata that it gives the table; None where it changes none.
    """

    version: int
    file_name: str
    size: int
    modification_time: int
    timestamp: int
    protocol: Protocol | None = None
    metadata: Metadata | None = None

    @property
    def ratified(self) -> RatifiedCommit:
        """It, once it has won."""
        return RatifiedCommit(
            version=self.version, file_name=self.file_name, size=self.size, modification_time=self.modification_time
        )


class TooManyUnpublishedError(Exception):
    """The catalog ratifies no more commits until those that it keeps are published. Never leaves ``ManagedLogStore``."""


class ManagedCommits(Port):
    """The commits of one table at the catalog that manages it.

    Each implementation passes ``tests/core/managed/managed_commits_contract.py``. Safe between threads. A request without an
    answer is an ``OSError``, as of a ``LogStore``: whether it was served is unknown then.
    """

    @property
    def catalog(self) -> str:
        """Name of the catalog, for errors; no secret."""
        ...

    @property
    def permits(self) -> Collection[Maintenance]:
        """The maintenance that the catalog leaves to its clients."""
        ...

    @property
    def identity(self) -> Mapping[str, str]:
        """The properties by which the table's own metadata names it at the catalog; empty where it does not."""
        ...

    def ratified(self) -> RatifiedCommits:
        """What is ratified now.

        Raises:
            TableNotFoundError: The catalog does not know the table (any more).
            StorageAccessError: The catalog refuses.
            CatalogAnswerError: What it says cannot be.
        """
        ...

    def ratify(self, commit: ProposedCommit) -> None:
        """Make the staged commit its version, if that is the next one and still free.

        Raises:
            FileExistsError: Another commit has the version; or this very one, when a request was sent twice.
            TooManyUnpublishedError: Earlier commits must be published first.
            TableNotFoundError: The catalog does not know the table (any more).
            CommitRefusedError: The catalog never takes a commit like that.
            StorageAccessError: The catalog refuses.
            OSError: No answer; the commit may be ratified.
        """
        ...

    def published(self, version: int) -> None:
        """Let the catalog forget the commits up to this version: they are all published. Twice is as once.

        Raises:
            As ``ratified``.
        """
        ...


def managing_catalog(store: LogStore) -> str | None:
    """Name of the catalog through which a table is read and written; None where its files alone decide."""
    name: str | None = getattr(store, "managed_by", None)
    return name


def check_access(store: LogStore, protocol: Protocol) -> None:
    """Return if a table with this protocol is opened the way it must be.

    Raises:
        CatalogRequiredError: A catalog manages the table, and the store knows of none.
        NotCatalogManagedError: The store commits through a catalog, and the table does not.
    """
    features = tuple(sorted(reader_features(protocol) & CATALOG_MANAGED))
    catalog = managing_catalog(store)
    if features and catalog is None:
        raise CatalogRequiredError(table=store.table_uri, features=features)
    if catalog is not None and not features:
        raise NotCatalogManagedError(table=store.table_uri, catalog=catalog)


def identifying_properties(store: LogStore) -> Mapping[str, str]:
    """The table properties by which a catalog knows a table that it manages; none where its files alone decide."""
    identity: Mapping[str, str] = getattr(store, "identity", {})
    return identity


def check_still_identified(store: LogStore, before: Metadata, after: Metadata) -> None:
    """Return if the metadata that is to follow still names an id at the catalog; ``check_identity`` says whether the right one.

    Raises:
        InvalidTablePropertyError: It names none any more: other clients of the catalog would refuse the table.
    """
    for name in identifying_properties(store):
        known = before.configuration.get(name)
        if known is not None and name not in after.configuration:
            detail = f"{managing_catalog(store)} knows the table by it; expected {known!r}"
            raise InvalidTablePropertyError(name=name, value=None, detail=detail)


def check_identity(store: LogStore, metadata: Metadata) -> None:
    """Return if the table with this metadata is the one whose commits the store asks the catalog for.

    Raises:
        AnotherManagedTableError: It names another id; tables of the feature's preview may name none.
    """
    for name, expected in identifying_properties(store).items():
        found = metadata.configuration.get(name, expected)
        if found != expected:
            raise AnotherManagedTableError(
                table=store.table_uri,
                catalog=managing_catalog(store) or "",
                id_property=name,
                expected=expected,
                found=printable(found)[:100],
            )


def is_permitted(store: LogStore, work: Maintenance) -> bool:
    """Whether the table's files may be maintained so: always where no catalog manages the table."""
    permits: Collection[Maintenance] = getattr(store, "permits", ())
    return managing_catalog(store) is None or work in permits


def check_permitted(store: LogStore, work: Maintenance) -> None:
    """Return if ``is_permitted``. Raises ``MaintenanceNotPermittedError``."""
    if not is_permitted(store, work):
        catalog = managing_catalog(store) or ""
        raise MaintenanceNotPermittedError(table=store.table_uri, work=work.value, catalog=catalog)
