"""The methods of an operator that Airflow's OpenLineage provider calls."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_delta.jobs.result import ResultDocument

_LINEAGE = "airflow_delta.observe.lineage"
"""Imported when OpenLineage's listener calls, as operators must be importable without that extra."""


class OpenLineageMethods:
    """Mixin with the methods by which Airflow's OpenLineage provider asks what a task reads and writes."""

    table: str
    outcome: ResultDocument | None

    def get_openlineage_facets_on_start(self) -> Any:
        """The table that the arguments name; known before the task has run."""
        return import_module(_LINEAGE).lineage_of_plan(self.table)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002 - the provider's signature
        """The versions read and written, with statistics."""
        if self.outcome is None:
            return self.get_openlineage_facets_on_start()
        return import_module(_LINEAGE).lineage_of_outcome(self.outcome)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> Any:  # noqa: ARG002
        """The table alone, as nothing was committed."""
        return self.get_openlineage_facets_on_start()
