"""Progress of applications (Delta's ``txn``): what an application has already committed is not done again.

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
    """The result of a statement that its application has already run; None if it has not.

    Args:
        snapshot: The table.
        operation: Delta's name of the operation.
        txn: Application id and version of this statement.
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
    """The application's ``txn`` action for this commit; two concurrent statements of one application conflict."""
    if txn is None:
        return ()
    app_id, version = txn
    transaction.transaction_version(app_id)
    return (SetTransaction(app_id=app_id, version=version, last_updated=now),)
