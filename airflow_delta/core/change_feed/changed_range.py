"""Which versions a change feed covers, and whether the change data feed was enabled in all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from airflow_delta.core.actions import Metadata
from airflow_delta.core.errors import (
    ChangeDataNotRecordedError,
    ChangeSchemaError,
    InvalidStatementError,
    VersionNotFoundError,
)
from airflow_delta.core.log.commit_reader import read_metadata
from airflow_delta.core.log.history import CommitTimes
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.log.timestamp import milliseconds
from airflow_delta.core.schema import DataType, StructType
from airflow_delta.core.schema.column_mapping import physical_name
from airflow_delta.core.schema.data_types import ArrayType, MapType
from airflow_delta.core.schema.type_widening import is_widening
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.table_features.feature import columns_of

ENABLED = "delta.enableChangeDataFeed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRange:
    """A range of versions, both ends included.

    Attributes:
        first: The first version.
        last: The last version.
    """

    first: int
    last: int

    @classmethod
    def from_bounds(
        cls, start: int | str, end: int | str | None, latest: Snapshot, times: Callable[[], CommitTimes]
    ) -> ChangedRange:
        """The versions from ``start`` to ``end``.

        Args:
            start: A version, or ISO text: the first version committed at that time or later.
            end: A version, or ISO text: the last version committed at that time or before; the latest version when None.
            latest: The latest version of the table.
            times: Gives the commit times of versions; only called if a time is given.

        Raises:
            VersionNotFoundError: The version does not exist yet.
            TimestampOutOfRangeError: No version was committed at or after the start, or at or before the end.
            InvalidStatementError: The end lies before the start, or a text is not a time.
        """
        first = start if isinstance(start, int) else times().first_from(milliseconds(start))
        last = latest.version if end is None else end if isinstance(end, int) else times().last_until(milliseconds(end))
        for version in (first, last):
            if not 0 <= version <= latest.version:
                earliest = list_log(latest.store).earliest_readable_version()
                raise VersionNotFoundError(table=latest.table_uri, version=version, earliest=earliest, latest=latest.version)
        if last < first:
            raise InvalidStatementError(statement=f"changes from {start} to {end}", detail=f"{last} lies before {first}")
        return cls(first=first, last=last)

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))


def check_recorded(store: LogStore, covered: ChangedRange, first: Snapshot, last: Snapshot) -> None:
    """Return if the change data feed was enabled in every version, and the last version's schema can represent all changes.

    Args:
        store: The table's log store.
        covered: The versions.
        first: The table at the first version.
        last: The table at the last version.

    Raises:
        ChangeDataNotRecordedError: The property was off at the first version, or was switched off later.
        ChangeSchemaError: A column of an earlier version is gone or has another type.
        CorruptLogError: A commit cannot be read or is missing.
    """
    changed = ((version, read_metadata(store, version)) for version in range(covered.first + 1, covered.last + 1))
    for version, metadata in [(covered.first, first.metadata), *changed]:
        if metadata is not None:
            _check(store.table_uri, version, metadata, last)


def _check(table: str, version: int, metadata: Metadata, last: Snapshot) -> None:
    if metadata.configuration.get(ENABLED, "").lower() != "true":
        raise ChangeDataNotRecordedError(table=table, version=version, detail=f"the property {ENABLED} was not true")
    schema = columns_of(metadata)
    differences = tuple(lost_columns(schema, last.schema))
    if _physical(schema, metadata.partition_columns) != _physical(last.schema, last.partition_columns):
        differences += (f"partitioned by {list(metadata.partition_columns)}, then by {list(last.partition_columns)}",)
    if differences:
        raise ChangeSchemaError(table=table, version=version, read_version=last.version, differences=differences)


def _physical(schema: StructType, names: tuple[str, ...]) -> list[str]:
    return [physical_name(field) for field in schema.fields if field.name in names]


def lost_columns(earlier: StructType, later: StructType, prefix: str = "") -> Iterator[str]:
    """Columns of the earlier schema that the later one cannot represent; columns are matched by physical name."""
    known = {physical_name(field): field for field in later.fields}
    for field in earlier.fields:
        name, successor = f"{prefix}{field.name}", known.get(physical_name(field))
        if successor is None:
            yield f"{name}: gone"
        else:
            yield from _lost_of_type(field.type, successor.type, name)


def _lost_of_type(earlier: DataType, later: DataType, name: str) -> Iterator[str]:
    match earlier, later:
        case StructType(), StructType():
            yield from lost_columns(earlier, later, f"{name}.")
        case ArrayType(), ArrayType():
            yield from _lost_of_type(earlier.element_type, later.element_type, f"{name}.element")
        case MapType(), MapType():
            yield from _lost_of_type(earlier.key_type, later.key_type, f"{name}.key")
            yield from _lost_of_type(earlier.value_type, later.value_type, f"{name}.value")
        case _ if earlier != later and not is_widening(earlier, later):
            yield f"{name}: {earlier}, then {later}"
