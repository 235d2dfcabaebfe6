"""DROP TABLE as a statement: deletes a table's files, after dropping its name if only the job can reach the catalog."""

from __future__ import annotations

from dataclasses import replace

from airflow_delta.catalogs.catalog import Catalog, check_droppable
from airflow_delta.catalogs.entry import CatalogEntry, same_location
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.operations.delete_table import delete_table
from airflow_delta.core.statements import DropStatement, OperationResult
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.jobs.catalog_publication import DETAIL, TABLE_ID
from airflow_delta.jobs.outcome import without_commit


def execute_drop(log: DeltaLog, statement: DropStatement, catalog: Catalog | None = None) -> OperationResult:
    """Drop the name, if the statement has one, and delete the files, if the statement asks for it.

    A name that does not exist, or belongs to another table by now, is left alone: an earlier try has dropped it.

    Args:
        log: The log at the table's location.
        statement: The statement.
        catalog: The catalog of the job's Spark session.

    Raises:
        InvalidStatementError: The statement lacks the table's id, or has a name although the job has no catalog.
        DeltaError: As ``check_droppable``, the catalog and ``delete_table`` raise it, before the name is dropped.
    """
    if statement.catalog_name is None:
        return _delete_files(log, statement)
    if catalog is None:
        raise _invalid("catalog_name is for jobs whose session has the catalog")
    name = TableName.parse(statement.catalog_name)
    entry = catalog.find(name)
    if entry is None or not _is_of(entry, statement):
        return _delete_files(log, statement)
    check_droppable(catalog, entry, with_files=statement.delete_files)
    version = NO_TABLE if entry.version is None else entry.version
    statement = replace(statement, table_id=entry.table_id)
    if statement.dry_run:
        return replace(_delete_files(log, statement, version), details={DETAIL: {TABLE_ID: entry.table_id}})
    if statement.delete_files:
        delete_table(log, str(entry.table_id), dry_run=True)
    catalog.drop(name)
    return _delete_files(log, statement, version)


def _is_of(entry: CatalogEntry, statement: DropStatement) -> bool:
    return same_location(entry.location, statement.table) and statement.table_id in {None, entry.table_id}


def _delete_files(log: DeltaLog, statement: DropStatement, version: int = NO_TABLE) -> OperationResult:
    if not statement.delete_files:
        return without_commit(log, "DROP TABLE", version)
    if statement.table_id is None:
        raise _invalid("delete_files needs table_id, the id of the table whose files are to be deleted")
    done = delete_table(log, statement.table_id, dry_run=statement.dry_run)
    return without_commit(log, "DROP TABLE", done.version, metrics=done.metrics())


def _invalid(detail: str) -> InvalidStatementError:
    return InvalidStatementError(statement="DROP TABLE", detail=detail)
