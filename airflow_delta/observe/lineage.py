"""What a task read and wrote, for OpenLineage: tables, their versions, and statistics of the output.

Needs the OpenLineage provider (``pip install 'airflow-delta[openlineage]'``); only its listener calls this. Connections are not
looked up here, because the listener runs in a separate process, which must not talk to the task's supervisor.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
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
from airflow_delta.observe.report import results_of

Lineage = OperatorLineage[Any, Any]


def lineage_of_plan(table: str) -> Lineage:
    """Lineage before there is an outcome: the table, if it is given by a URI or an absolute path."""
    is_place = "://" in table or table.startswith("/")
    name = lineage_name(table) if is_place else None
    return OperatorLineage(outputs=[OutputDataset(*name, facets={"storage": _storage()})] if name else [])


def lineage_of_outcome(document: ResultDocument) -> Lineage:
    """Lineage with the versions read and committed; a table in which nothing was committed counts as read."""
    outcome = document.outcome
    if outcome is None:
        return OperatorLineage()
    results = results_of(outcome)
    written: dict[str, list[OperationResult]] = {}
    for result in results:
        if result.committed:
            written.setdefault(result.table, []).append(result)
    made = {(result.table, result.version) for commits in written.values() for result in commits}
    read = [version for result in results for version in _read(result) if result.committed or version not in made]
    outputs = [_output(*name, document, commits) for table, commits in written.items() if (name := lineage_name(table))]
    return OperatorLineage(inputs=_inputs(read), outputs=outputs)


def _read(result: OperationResult) -> list[tuple[str, int]]:
    """The tables that a statement read, with their versions."""
    pins = result.details.get("pins") if result.operation == "PIN" else None
    own = () if result.committed else ({"table": result.table, "version": result.version},)
    sources = [*result.sources, *(pins if isinstance(pins, list) else ()), *own]
    named = [source for source in sources if isinstance(source, Mapping)]
    found = [(source.get("table"), natural_number(source.get("version"))) for source in named]
    return [(table, version) for table, version in found if isinstance(table, str) and version is not None]


def _inputs(read: list[tuple[str, int]]) -> list[InputDataset]:
    named = ((lineage_name(table), version) for table, version in dict.fromkeys(read))
    return [
        InputDataset(*name, facets={"version": _version(version), "storage": _storage()}) for name, version in named if name
    ]


def _output(namespace: str, name: str, document: ResultDocument, commits: list[OperationResult]) -> OutputDataset:
    """A table at the version of the last of these commits, with the statistics of all of them."""
    last, statistics = commits[-1], [commit_statistics(commit.metrics) for commit in commits]
    facets: dict[str, Any] = {"version": _version(last.version), "storage": _storage()}
    is_described = document.outcome is not None and document.outcome.table == last.table
    if document.schema_string and is_described:
        with BestEffort().attempt("the schema in the lineage"):
            facets["schema"] = SchemaDatasetFacet(fields=_fields(json.loads(document.schema_string)))
    rows, size, files = (_sum(getattr(one, field) for one in statistics) for field in ("rows", "bytes", "files"))
    written = OutputStatisticsOutputDatasetFacet(rowCount=rows, size=size, fileCount=files)
    return OutputDataset(namespace, name, facets=facets, outputFacets={"outputStatistics": written})


def _sum(counts: Iterable[int | None]) -> int | None:
    """The sum of the known counts; None without known counts."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _version(version: int) -> DatasetVersionDatasetFacet:
    return DatasetVersionDatasetFacet(datasetVersion=str(version))


def _storage() -> StorageDatasetFacet:
    return StorageDatasetFacet(storageLayer="delta", fileFormat="parquet")


def _fields(struct: dict[str, Any]) -> list[SchemaDatasetFacetFields]:
    """The fields of a struct in Delta's schema JSON; elements of arrays and maps are not included."""
    fields = []
    for field in struct["fields"]:
        kind = field["type"]
        nested = _fields(kind) if isinstance(kind, dict) and kind["type"] == "struct" else []
        name = kind if isinstance(kind, str) else kind["type"]
        comment = (field.get("metadata") or {}).get("comment")
        attributes = json_value({"name": field["name"], "type": name, "description": comment})
        fields.append(SchemaDatasetFacetFields(**attributes, fields=nested))
    return fields
