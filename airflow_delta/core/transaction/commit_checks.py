"""The checks of a commit on its own, made before conflicts with other commits are checked."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions, DomainMetadata, Metadata, Protocol, SetTransaction
from airflow_delta.core.errors import (
    AppendOnlyTableError,
    DuplicateActionError,
    InvalidCommitError,
    MissingRecordCountError,
    UnsupportedWriterFeatureError,
)
from airflow_delta.core.log.action_reconciliation import canonical_paths, file_keys
from airflow_delta.core.log.file_columns import log_name
from airflow_delta.core.log.record_counts import record_counts
from airflow_delta.core.schema import parse_schema
from airflow_delta.core.table_features.feature import CATALOG_MANAGED, DELETION_VECTORS, FEATURES, writer_features
from airflow_delta.core.table_features.iceberg_compat import COMPATIBLE, compat_versions
from airflow_delta.core.table_features.iceberg_rules import Violation, check_iceberg_compat, raise_for
from airflow_delta.core.table_features.support import FILE_FEATURES, ROW_FEATURES, check_writable
from airflow_delta.core.transaction.in_commit_timestamps import are_enabled
from airflow_delta.core.transaction.table_properties import is_append_only
from airflow_delta.core.user_metadata import check_user_metadata


def check_commit(
    table: str,
    actions: CommitActions,
    protocol: Protocol,
    metadata: Metadata,
    *,
    before: Metadata | None = None,
    enforces: Collection[str],
) -> None:
    """Check what the protocol requires of every commit.

    Args:
        table: URI of the table, for errors.
        actions: The commit.
        protocol: The table's protocol after the commit.
        metadata: The table's metadata after the commit.
        before: The table's metadata before the commit; None where it is not known.
        enforces: Features whose constraints the writer has enforced on the rows; see ``ROW_FEATURES``.

    Raises:
        InvalidStatementError: The user's own text is too long.
        DuplicateActionError: A file, application or domain is named twice.
        InvalidCommitError: A rule of the protocol is broken.
        InvalidSchemaError: The new schema cannot be read.
        AppendOnlyTableError: The commit removes rows from an append-only table.
        MissingRecordCountError: A file lacks its number of rows, which a deletion vector or Iceberg compatibility needs.
        IcebergCompatError: The table would not be readable as an Iceberg table, which a table property requires.
        InvalidProtocolError: The protocol contradicts itself.
        UnsupportedReaderFeatureError: The table cannot be read here.
        UnsupportedWriterFeatureError: The table requires an unsupported writer feature.
    """
    check_readable_again(table, actions)
    check_writable(table, protocol, metadata)
    if actions.commit_info:
        check_user_metadata(actions.commit_info.operation, actions.commit_info.origin.user_metadata)
    check_no_duplicates(table, actions)
    for detail in _broken_rules(actions, writer_features(protocol)):
        raise InvalidCommitError(table=table, detail=detail)
    if CATALOG_MANAGED & writer_features(protocol) and not are_enabled(metadata.configuration):
        raise InvalidCommitError(table=table, detail="a catalog-managed table must keep in-commit timestamps")
    if is_append_only((before or metadata).configuration) and _changes_data(actions.removes):  # a restore may turn it on
        raise AppendOnlyTableError(table=table)
    _check_record_counts(table, actions.adds)
    if actions.metadata or actions.protocol:
        check_iceberg_compat(table, metadata, protocol, before)
    if versions := compat_versions(metadata.configuration):
        _check_files_for_iceberg(table, actions.adds, versions[0])
    check_rows(table, actions, protocol, metadata, enforces=enforces)


def check_readable_again(table: str, actions: CommitActions) -> None:
    """Return if every reader can parse the commit: a single value of the wrong type makes the table unreadable.

    Raises:
        InvalidCommitError: A value is not of the type that the protocol requires, a file lacks a required value, or the schema
            lacks a partition column.
        InvalidSchemaError: The new schema cannot be read.
    """
    others: tuple[Protocol | Metadata | SetTransaction | DomainMetadata | None, ...]
    others = (actions.protocol, actions.metadata, *actions.transactions, *actions.domains)
    for action in others:
        if action is None:
            continue
        try:
            type(action).from_json(action.to_json())
        except (TypeError, ValueError) as error:
            detail = f"a {type(action).__name__} holds a value that no reader takes ({error})"
            raise InvalidCommitError(table=table, detail=detail) from error
    if actions.metadata:
        schema = parse_schema(actions.metadata.schema_string)
        for column in actions.metadata.partition_columns:
            if schema.find(column) is None:
                raise InvalidCommitError(table=table, detail=f"the partition column {column} is not among the columns")
    for name, files in (("add", actions.adds), ("remove", actions.removes), ("cdc", actions.changes)):
        for column in files.schema:
            if not column.nullable and files[column.name].null_count:
                detail = f"a file action ({name}) has no {log_name(column.name)}"
                raise InvalidCommitError(table=table, detail=detail)


def check_no_duplicates(table: str, actions: CommitActions) -> None:
    """Check that the commit names a file only once: as an add, as a remove, or as both if only its deletion vector changes.

    Follows ``ConflictChecker.checkDuplicateActions`` of Delta Spark.

    Raises:
        DuplicateActionError: A file is named twice, or an application or domain is set twice.
    """
    for action, files in (("add", actions.adds), ("remove", actions.removes), ("cdc", actions.changes)):
        if len(files) > 1:
            _check_distinct(table, action, canonical_paths(files["path"]).combine_chunks())
    if len(actions.adds) and len(actions.removes):
        both = actions.adds.filter(pc.is_in(file_keys(actions.adds), file_keys(actions.removes).combine_chunks()))
        if len(both):
            raise DuplicateActionError(table=table, action="add and remove", path=both["path"][0].as_py())
    for action, names in (
        ("txn", [transaction.app_id for transaction in actions.transactions]),
        ("domainMetadata", [domain.domain for domain in actions.domains]),
    ):
        if len(names) > 1:
            _check_distinct(table, action, pa.array(names, pa.string()))


def is_empty(actions: CommitActions) -> bool:
    """Whether the commit would contain only its ``commitInfo``."""
    named: tuple[tuple[SetTransaction, ...], tuple[DomainMetadata, ...]] = (actions.transactions, actions.domains)
    files = (actions.adds, actions.removes, actions.changes)
    return not (any(map(len, files)) or actions.protocol or actions.metadata or any(named))


def rewrites(actions: CommitActions) -> bool:
    """Whether whole files are added and whole files removed, so that rows may have moved from the latter to the former."""
    came, went = (canonical_paths(files["path"]).combine_chunks() for files in (actions.adds, actions.removes))
    return not pc.all(pc.is_in(came, went), min_count=0).as_py() and not pc.all(pc.is_in(went, came), min_count=0).as_py()


def _broken_rules(actions: CommitActions, features: Collection[str]) -> Iterator[str]:
    adds, removes = actions.adds, actions.removes
    changes = {value for files in (adds, removes) if len(files) for value in files["data_change"].unique().to_pylist()}
    if len(changes) > 1:
        yield "some of its files change data and some do not"
    if changes == {False} and actions.transactions:
        yield "it changes no data but moves the progress of an application, which would cost it its right to pass appends"
    if changes == {False} and len(actions.changes):
        yield "it changes no data but holds files of changes"
    if actions.domains and "domainMetadata" not in features:
        yield f"it sets the domain {actions.domains[0].domain}, but the table does not have the feature domainMetadata"
    if DELETION_VECTORS not in features and adds["deletion_vector"].null_count < len(adds):
        yield f"it marks rows as deleted, but the table does not have the feature {DELETION_VECTORS}"


def _check_record_counts(table: str, adds: pa.Table) -> None:
    if adds["deletion_vector"].null_count == len(adds):
        return
    marked = adds.filter(pc.is_valid(adds["deletion_vector"]))
    unknown = marked["path"].filter(pc.is_null(record_counts(marked["stats"].combine_chunks())))
    if len(unknown):
        raise MissingRecordCountError(table=table, path=unknown[0].as_py(), needed_for="deletion vectors")


def _check_files_for_iceberg(table: str, adds: pa.Table, version: int) -> None:
    """Check what this version of Iceberg compatibility requires of new files. Raises as ``check_commit``."""
    unknown = adds["path"].filter(pc.is_null(record_counts(adds["stats"].combine_chunks())))
    if len(unknown):
        raise MissingRecordCountError(table=table, path=unknown[0].as_py(), needed_for="Iceberg compatibility")
    marked = adds["path"].filter(pc.is_valid(adds["deletion_vector"]))
    if version <= 2 and len(marked):  # noqa: PLR2004 (the third allows deletion vectors)
        detail = f"{marked[0].as_py()} would have a deletion vector"
        raise_for(table, [Violation(property=COMPATIBLE[version], detail=detail, cure="write the file without the rows")])


def check_rows(
    table: str, actions: CommitActions, protocol: Protocol, metadata: Metadata, *, enforces: Collection[str]
) -> None:
    """Check that the writer enforced what the table requires of new rows and files.

    The core cannot see whether it did, and relies on what the writer declares in ``enforces``. Arguments: as ``check_commit``.

    Raises:
        UnsupportedWriterFeatureError: Some features were not enforced; the error names them.
    """
    if _changes_data(actions.adds):
        requested = ROW_FEATURES
    elif rewrites(actions):
        requested = FILE_FEATURES
    else:
        return
    requested = requested & writer_features(protocol) - frozenset(enforces)
    missing = {name for name in requested if FEATURES[name].in_use(metadata)}
    if "changeDataFeed" in missing and (len(actions.changes) or not rewrites(actions)):
        missing.remove("changeDataFeed")  # readers derive the changes from files added or removed as a whole
    if missing:
        raise UnsupportedWriterFeatureError(table=table, features=tuple(sorted(missing)))


def _changes_data(files: pa.Table) -> bool:
    return bool(pc.any(files["data_change"]).as_py())


def _check_distinct(table: str, action: str, names: pa.Array) -> None:
    if pc.count_distinct(names).as_py() < len(names):
        counts = pc.value_counts(names)
        twice = counts.filter(pc.greater(counts.field("counts"), 1))
        raise DuplicateActionError(table=table, action=action, path=twice[0]["values"].as_py())
