"""The parameters of a Delta table in Glue or in a Hive metastore, in Spark's form.

Spark recognizes a table by ``spark.sql.sources.provider``, and keeps its schema as JSON in ``spark.sql.sources.schema``, split
into parts if it is long (``HiveExternalCatalog``). Delta-Spark adds the table's properties, ``delta.lastUpdateVersion`` and
``delta.lastCommitTimestamp`` (``UpdateCatalog``). This package adds the id of the table and the names of its properties.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from airflow_delta.catalogs.entry import DELTA, CatalogEntry, TableDescription, schema_or_none
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.foreign_values import natural_number
from airflow_delta.core.schema import schema_json

PROVIDER = "spark.sql.sources.provider"
TABLE_ID = "airflow_delta.tableId"
PATH = "path"
"""Parameter of the storage descriptor's serde in which Spark looks for the location."""

VIEW = "view"
"""The ``provider`` of entries that are views."""

SCHEMA = "spark.sql.sources.schema"
"""Parameter with the schema as JSON."""

_PROPERTIES = "airflow_delta.properties"
"""Parameter with the names of the table's properties as a JSON list, to tell them from the catalog's own parameters."""

_VERSION, _TIMESTAMP = "delta.lastUpdateVersion", "delta.lastCommitTimestamp"
_READER, _WRITER = "delta.minReaderVersion", "delta.minWriterVersion"
_VIEWS = frozenset({"VIRTUAL_VIEW", "MATERIALIZED_VIEW"})
_PART = 4_000
"""Most characters of a value, as in Spark, because old metastores cannot store more."""
_MOST_PARTS = 10_000
_OURS = re.compile(rf"{re.escape(SCHEMA)}(\..*)?|delta\..*|airflow_delta\..*|comment|{re.escape(PROVIDER)}")


def parameters_of(table: TableDescription, existing: Mapping[str, str]) -> dict[str, str]:
    """The parameters of the table; those in ``existing`` that others have written are kept."""
    old = set(_property_names(existing))
    kept = {key: value for key, value in existing.items() if not _OURS.fullmatch(key) and key not in old}
    return {
        **kept,
        **table.properties,
        **dict(_long(SCHEMA, schema_json(table.schema))),
        **partition_parameters(table.partition_columns),
        **dict(_long(_PROPERTIES, json.dumps(sorted(table.properties)))),
        **({"comment": table.comment} if table.comment else {}),
        PROVIDER: DELTA,
        TABLE_ID: table.table_id,
        _VERSION: str(table.version),
        _TIMESTAMP: str(table.timestamp),
        _READER: str(table.min_reader_version),
        _WRITER: str(table.min_writer_version),
        "EXTERNAL": "TRUE",
    }


def entry_of(
    name: TableName, location: str, parameters: Mapping[str, str], *, kind: str | None = None, comment: str | None = None
) -> CatalogEntry:
    """The entry of a table from its parameters and its type (``VIRTUAL_VIEW``), also if Trino, Athena or a crawler made it."""
    view = VIEW if kind in _VIEWS else None
    declared = view or parameters.get(PROVIDER) or parameters.get("table_type") or parameters.get("classification") or "hive"
    count = natural_number(parameters.get(f"{SCHEMA}.numPartCols")) or 0
    columns = [parameters.get(f"{SCHEMA}.partCol.{number}") for number in range(min(count, _MOST_PARTS))]
    schema = schema_or_none(_text(SCHEMA, parameters))
    if schema is not None and not schema.fields and TABLE_ID not in parameters:
        schema = None  # Delta-Spark leaves the schema to the log, and writes one without columns
    return CatalogEntry(
        name=name,
        location=location,
        provider=declared.lower(),
        table_id=parameters.get(TABLE_ID),
        schema=schema,
        version=natural_number(parameters.get(_VERSION)),
        partition_columns=tuple(column for column in columns if column is not None),
        properties={key: parameters[key] for key in _property_names(parameters) if key in parameters},
        comment=parameters.get("comment", comment),
    )


def partition_parameters(columns: tuple[str, ...]) -> dict[str, str]:
    """The parameters that name the partition columns; empty without partition columns."""
    if not columns:
        return {}
    numbered = {f"{SCHEMA}.partCol.{number}": column for number, column in enumerate(columns)}
    return {f"{SCHEMA}.numPartCols": str(len(columns)), **numbered}


def _long(key: str, text: str) -> Iterator[tuple[str, str]]:
    if len(text) <= _PART:
        yield key, text
        return
    parts = [text[start : start + _PART] for start in range(0, len(text), _PART)]
    yield f"{key}.numParts", str(len(parts))
    for number, part in enumerate(parts):
        yield f"{key}.part.{number}", part


def _text(key: str, parameters: Mapping[str, str]) -> str | None:
    if key in parameters:
        return parameters[key]
    count = natural_number(parameters.get(f"{key}.numParts")) or 0
    parts = [parameters.get(f"{key}.part.{number}") for number in range(min(count, _MOST_PARTS))]
    return "".join(part for part in parts if part is not None) if parts and None not in parts else None


def _property_names(parameters: Mapping[str, str]) -> list[str]:
    try:
        names = json.loads(_text(_PROPERTIES, parameters) or "[]")
    except (ValueError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
