"""What a commit must be in itself, before anybody else's commits are looked at."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions, DomainMetadata, Metadata, SetTransaction
from airflow_delta.core.errors import AppendOnlyTableError, DuplicateActionError
from airflow_delta.core.log.action_reconciliation import file_keys
from airflow_delta.core.transaction.table_properties import is_append_only


def check_no_duplicates(table: str, actions: CommitActions) -> None:
    """One commit names a file once: as an add, as a remove, or as both when only its deletion vector changes.

    Follows ``ConflictChecker.checkDuplicateActions`` of Delta Spark.

    Raises:
        DuplicateActionError: It does not; or it sets one application or domain twice.
    """
    for action, files in (("add", actions.adds), ("remove", actions.removes)):
        _check_distinct(table, action, files["path"])
    both = actions.adds.filter(pc.is_in(file_keys(actions.adds), file_keys(actions.removes)))
    if len(both):
        raise DuplicateActionError(table=table, action="add and remove", path=both["path"][0].as_py())
    _check_distinct(table, "txn", pa.chunked_array([[each.app_id for each in actions.transactions]], pa.string()))
    _check_distinct(table, "domainMetadata", pa.chunked_array([[each.domain for each in actions.domains]], pa.string()))


def check_append_only(table: str, metadata: Metadata, actions: CommitActions) -> None:
    """A table that only takes appends loses no row; its files may still be rearranged.

    Raises:
        AppendOnlyTableError: The commit removes rows from such a table.
    """
    if is_append_only(metadata.configuration) and pc.any(actions.removes["data_change"]).as_py():
        raise AppendOnlyTableError(table=table)


def is_empty(actions: CommitActions) -> bool:
    """Whether the commit would say nothing but that it was made."""
    named: tuple[tuple[SetTransaction, ...], tuple[DomainMetadata, ...]] = (actions.transactions, actions.domains)
    return not (len(actions.adds) or len(actions.removes) or actions.protocol or actions.metadata or any(named))


def _check_distinct(table: str, action: str, names: pa.ChunkedArray) -> None:
    if pc.count_distinct(names).as_py() < len(names):
        counts = pc.value_counts(names.combine_chunks())
        twice = counts.filter(pc.greater(counts.field("counts"), 1))
        raise DuplicateActionError(table=table, action=action, path=twice[0]["values"].as_py())
