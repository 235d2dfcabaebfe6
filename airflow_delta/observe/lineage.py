"""What a task read and wrote, for OpenLineage: tables with their versions, and what was written to them.

Needs the OpenLineage provider (``pip install 'airflow-delta[openlineage]'``); only its listener calls this. Connections are not
looked up here: the listener calls in a process of its own, which must not talk to the task's supervisor.
"""

from __future__ import annotations

import json
from typing import Any

from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
from openlineage.client.generated.schema_dataset import SchemaDatasetFacet, SchemaDatasetFacetFields
from openlineage.client.generated.storage_dataset import StorageDatasetFacet

from airflow_delta.assets import lineage_name
from airflow_delta.core.foreign_values import json_value, natural_number
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.best_effort import BestEffort
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.observe.commit_statistics import commit_statistics

Lineage = OperatorLineage[Any, Any]


def lineage_of_plan(table: str) -> Lineage:
    """Before there is an outcome: the table, if its argument is a URI or an absolute path; a name below a table root is not."""
    is_place = "://" in table or table.startswith("/")
    name = lineage_name(table) if is_place else None
    return OperatorLineage(outputs=[OutputDataset(*name, facets={"storage": _storage()})] if name else [])


def lineage_of_outcome(document: ResultDocument) -> Lineage:
    """The versions that were read and the version that was made; a table in which nothing was committed counts as read."""
    result = document.outcome
    if result is None:
        return OperatorLineage()
    sources = [(source.get("table"), natural_number(source.get("version"))) for source in result.sources]
    read = [(table, version) for table, version in sources if isinstance(table, str) and version is not None]
    if not result.committed:
        return OperatorLineage(inputs=_inputs([*read, (result.table, result.version)]))
    name = lineage_name(result.table)
    return OperatorLineage(inputs=_inputs(read), outputs=[_output(*name, document, result)] if name else [])


def _inputs(read: list[tuple[str, int]]) -> list[InputDataset]:
    named = ((lineage_name(table), version) for table, version in dict.fromkeys(read))
    return [
        InputDataset(*name, facets={"version": _version(version), "storage": _storage()}) for name, version in named if name
    ]


def _output(namespace: str, name: str, document: ResultDocument, result: OperationResult) -> OutputDataset:
    written = commit_statistics(result.metrics)
    facets: dict[str, Any] = {"version": _version(result.version), "storage": _storage()}
    if document.schema_string:
        with BestEffort().attempt("the schema in the lineage"):
            facets["schema"] = SchemaDatasetFacet(fields=_fields(json.loads(document.schema_string)))
    statistics = OutputStatisticsOutputDatasetFacet(rowCount=written.rows, size=written.bytes, fileCount=written.files)
    return OutputDataset(namespace, name, facets=facets, outputFacets={"outputStatistics": statistics})


def _version(version: int) -> DatasetVersionDatasetFacet:
    return DatasetVersionDatasetFacet(datasetVersion=str(version))


def _storage() -> StorageDatasetFacet:
    return StorageDatasetFacet(storageLayer="delta", fileFormat="parquet")


def _fields(struct: dict[str, Any]) -> list[SchemaDatasetFacetFields]:
    """The fields of a struct in Delta's schema JSON; those of arrays and maps are not opened."""
    fields = []
    for field in struct["fields"]:
        kind = field["type"]
        nested = _fields(kind) if isinstance(kind, dict) and kind["type"] == "struct" else []
        name = kind if isinstance(kind, str) else kind["type"]
        comment = (field.get("metadata") or {}).get("comment")
        attributes = json_value({"name": field["name"], "type": name, "description": comment})
        fields.append(SchemaDatasetFacetFields(**attributes, fields=nested))
    return fields
