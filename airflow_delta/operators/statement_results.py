"""The results of several statements that ran as one job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_delta.core.statements import OperationResult
from airflow_delta.core.statements.sequence import STATEMENTS_KEY
from airflow_delta.hooks.xcoms import push_xcom
from airflow_delta.jobs.best_effort import BestEffort
from airflow_delta.jobs.catalog_publication import DETAIL
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.jobs.summary import summary
from airflow_delta.operators.asset_events import is_asset_of, is_change
from airflow_delta.operators.job import DeltaJobOperator


class StatementResultsOperator(DeltaJobOperator):
    """If the result is that of a sequence: pushes each statement's version as an XCom under its name, and logs a summary."""

    def _announced(self, result: OperationResult) -> OperationResult:
        of_asset = self._of_asset(result)
        return ([found for found in of_asset if is_change(found)] or of_asset or [result])[-1]

    def announced_versions(self, result: OperationResult) -> Sequence[int]:
        """The version of each statement that changed the asset's table."""
        return [found.version for found in self._of_asset(result) if is_change(found)]

    def _of_asset(self, result: OperationResult) -> list[OperationResult]:
        """The results of the statements on the asset's table."""
        asset = self.asset
        if asset is None:
            return []
        return [found for found in _results(result).values() if is_asset_of(asset, found.table, found.details.get(DETAIL))]

    def _deliver(self, document: ResultDocument, context: Context) -> dict[str, Any]:
        for name, result in _results(document.outcome).items():
            with BestEffort().attempt(f"reporting the statement {name}"):
                push_xcom(context, name, result.version)
                self.log.info("%s: %s", name, summary(ResultDocument(outcome=result)))
        return super()._deliver(document, context)


def _results(outcome: OperationResult | None) -> dict[str, OperationResult]:
    """The result of each statement by name; empty if the job was not a sequence."""
    documents = {} if outcome is None else outcome.details.get(STATEMENTS_KEY, {})
    return {name: OperationResult.from_json(document) for name, document in documents.items()}
