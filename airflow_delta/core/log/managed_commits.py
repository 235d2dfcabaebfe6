"""The interface to the catalog that manages a table: which commits are ratified, and how to have the next one ratified.

Protocol: PROTOCOL.md, "Catalog-managed tables". The catalog decides what is committed; the files of the log follow.
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
    """Maintenance that a table's catalog must permit; checkpoints, log compaction and checksums need no permission."""

    VACUUM = "VACUUM"
    LOG_CLEANUP = "log cleanup"
    DATA_LAYOUT = "a change of the data layout (OPTIMIZE, REORG)"


@dataclass(frozen=True, slots=True, kw_only=True)
class RatifiedCommit:
    """A ratified commit that the catalog still keeps, whether or not it is already published.

    Attributes:
        version: Its version.
        file_name: Name of the staged commit in ``_delta_log/_staged_commits``; empty if the catalog itself holds the content.
        size: Size in bytes.
        modification_time: Of the staged commit, in milliseconds since the epoch; for an inline commit, when it was ratified.
        content: The content of an inline commit; None for a staged one.

    Raises:
        ValueError: ``file_name`` is not the name of a staged commit of this version, or neither name nor content is given.
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
        """The status that its file has once published; the same before and after."""
        return FileStatus(commit_path(self.version), self.size, self.modification_time)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatifiedCommits:
    """What a catalog knows of a table's commits.

    Attributes:
        commits: The commits that it still keeps, ascending; every unpublished one is among them.
        latest: The latest ratified version; None if the catalog has ratified none, so that the published files decide.

    Raises:
        ValueError: Two commits have the same version, or one is later than ``latest``.
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
    """A staged commit that is proposed as the next version.

    Attributes:
        version: The proposed version, the one after the latest.
        file_name: Its name in ``_delta_log/_staged_commits``.
        size: Size in bytes.
        modification_time: Of the file, in milliseconds since the epoch.
        timestamp: Its in-commit timestamp, in milliseconds since the epoch.
        protocol: The protocol that it sets; None if unchanged.
        metadata: The metadata that it sets; None if unchanged.
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
        """The proposed commit, once it is ratified."""
        return RatifiedCommit(
            version=self.version, file_name=self.file_name, size=self.size, modification_time=self.modification_time
        )


class TooManyUnpublishedError(Exception):
    """The catalog ratifies no further commit until earlier ones are published. Handled inside ``ManagedLogStore``."""


class ManagedCommits(Port):
    """The commits of one table, as the catalog that manages it knows them.

    Every implementation passes ``tests/core/managed/managed_commits_contract.py`` and is thread-safe. A request without an
    answer raises ``OSError``, as in a ``LogStore``; the request may have been served all the same.
    """

    @property
    def catalog(self) -> str:
        """Name of the catalog, for errors; not a secret."""
        ...

    @property
    def permits(self) -> Collection[Maintenance]:
        """The maintenance that the catalog permits to clients."""
        ...

    @property
    def identity(self) -> Mapping[str, str]:
        """The properties in the table's metadata that identify it in the catalog; empty if there are none."""
        ...

    def ratified(self) -> RatifiedCommits:
        """The commits that are ratified now.

        Raises:
            TableNotFoundError: The catalog does not know the table (any more).
            StorageAccessError: The catalog denies access.
            CatalogAnswerError: The answer is invalid.
        """
        ...

    def ratify(self, commit: ProposedCommit) -> None:
        """Ratify the staged commit as its version, if that is the next one and still free.

        Raises:
            FileExistsError: Another commit has the version; or this very one, if a request was sent twice.
            TooManyUnpublishedError: Earlier commits must be published first.
            TableNotFoundError: The catalog does not know the table (any more).
            CommitRefusedError: The catalog will never accept this commit.
            StorageAccessError: The catalog denies access.
            OSError: No answer; the commit may be ratified.
        """
        ...

    def published(self, version: int) -> None:
        """Report that all commits up to this version are published, so that the catalog may forget them. Idempotent.

        Raises:
            As ``ratified``.
        """
        ...


def managing_catalog(store: LogStore) -> str | None:
    """Name of the catalog through which the table is read and written; None for a table without a catalog."""
    name: str | None = getattr(store, "managed_by", None)
    return name


def check_access(store: LogStore, protocol: Protocol) -> None:
    """Return if a table with this protocol is opened in the right way.

    Raises:
        CatalogRequiredError: The table is catalog-managed, and the store does not go through a catalog.
        NotCatalogManagedError: The store goes through a catalog, but the table is not catalog-managed.
    """
    features = tuple(sorted(reader_features(protocol) & CATALOG_MANAGED))
    catalog = managing_catalog(store)
    if features and catalog is None:
        raise CatalogRequiredError(table=store.table_uri, features=features)
    if catalog is not None and not features:
        raise NotCatalogManagedError(table=store.table_uri, catalog=catalog)


def identifying_properties(store: LogStore) -> Mapping[str, str]:
    """The table properties that identify a table in the catalog that manages it; empty for a table without a catalog."""
    identity: Mapping[str, str] = getattr(store, "identity", {})
    return identity


def check_still_identified(store: LogStore, before: Metadata, after: Metadata) -> None:
    """Return if the new metadata still has an id of the catalog; ``check_identity`` checks that it is the right one.

    Raises:
        InvalidTablePropertyError: It has none: other clients of the catalog would refuse the table.
    """
    for name in identifying_properties(store):
        known = before.configuration.get(name)
        if known is not None and name not in after.configuration:
            detail = f"{managing_catalog(store)} knows the table by it; expected {known!r}"
            raise InvalidTablePropertyError(name=name, value=None, detail=detail)


def check_identity(store: LogStore, metadata: Metadata) -> None:
    """Return if this metadata is that of the table whose commits the store requests from the catalog.

    Raises:
        AnotherManagedTableError: It has another id. Tables of the feature's preview may have none.
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
    """Whether this maintenance is permitted; always true for a table that is not catalog-managed."""
    permits: Collection[Maintenance] = getattr(store, "permits", ())
    return managing_catalog(store) is None or work in permits


def check_permitted(store: LogStore, work: Maintenance) -> None:
    """Return if ``is_permitted``. Raises ``MaintenanceNotPermittedError``."""
    if not is_permitted(store, work):
        catalog = managing_catalog(store) or ""
        raise MaintenanceNotPermittedError(table=store.table_uri, work=work.value, catalog=catalog)
