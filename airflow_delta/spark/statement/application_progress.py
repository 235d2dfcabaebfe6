"""How far an application has written (Delta's ``txn``): what it has done before is not done again.

Protocol: PROTOCOL.md, "Transaction Identifiers".
"""

from __future__ import annotations

from dataclasses import replace

from airflow_delta.core.actions import SetTransaction
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from airflow_delta.spark.statement.outcome import uncommitted


def done_before(snapshot: Snapshot, operation: str, txn: tuple[str, int] | None) -> OperationResult | None:
    """The result of a statement that its application has run already; None where it has not.

    Args:
        snapshot: The table.
        operation: Delta's name of it.
        txn: The application, and its number of this statement.
    """
    if txn is None:
        return None
    app_id, version = txn
    progress = snapshot.transactions.get(app_id)
    if progress is None or progress.version < version:
        return None
    skipped = {"app_id": app_id, "version": version, "table_has": progress.version}
    return replace(uncommitted(snapshot, operation, {}), details={"skipped_txn": skipped})


def progress(transaction: OptimisticTransaction, txn: tuple[str, int] | None, now: int) -> tuple[SetTransaction, ...]:
    """How far the application is with this commit; two statements of one application exclude each other."""
    if txn is None:
        return ()
    app_id, version = txn
    transaction.transaction_version(app_id)
    return (SetTransaction(app_id=app_id, version=version, last_updated=now),)
