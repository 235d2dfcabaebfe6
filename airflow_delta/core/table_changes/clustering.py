"""A table's clustering columns: a metadata domain, with physical names.

Protocol: PROTOCOL.md, "Clustered Table".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from airflow_delta.core.actions import DomainMetadata
from airflow_delta.core.errors import CorruptLogError
from airflow_delta.core.json_text import parse_json
from airflow_delta.core.schema import StructType, physical_name
from airflow_delta.core.table_changes.column_path import ColumnPath
from airflow_delta.core.table_changes.refusal import Refusal
from airflow_delta.core.table_changes.schema_edit import find_column
from airflow_delta.core.table_features.feature import CLUSTERING

CLUSTERING_FEATURE = "clustering"


def clustering_domain(schema: StructType, columns: Sequence[ColumnPath]) -> DomainMetadata:
    """The domain action that sets these clustering columns; without columns, the table is not clustered.

    Raises:
        Refusal: A column does not exist.
    """
    physical = [[physical_name(find_column(schema, path[:depth])[1]) for depth in range(1, len(path) + 1)] for path in columns]
    document = {"clusteringColumns": physical, "domainName": CLUSTERING}
    return DomainMetadata(domain=CLUSTERING, configuration=json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def clustering_columns(table: str, schema: StructType, domains: Mapping[str, DomainMetadata]) -> tuple[ColumnPath, ...]:
    """The table's clustering columns, by logical names.

    Raises:
        CorruptLogError: The domain violates the protocol, or names a column that does not exist.
    """
    domain = domains.get(CLUSTERING)
    if domain is None:
        return ()
    try:
        physical = parse_json(domain.configuration)["clusteringColumns"]
        # Each column is a list of names, as Delta Spark writes it, or one name, as in the protocol's example.
        return tuple(_logical(schema, [path] if isinstance(path, str) else path) for path in physical)
    except (ValueError, LookupError, TypeError, Refusal) as error:
        detail = f"its configuration is {domain.configuration!r:.200}"
        raise CorruptLogError(table=table, file=f"the domain {CLUSTERING}", detail=detail) from error


def has_no_columns(domain: DomainMetadata) -> bool:
    """Whether the domain lists no clustering columns."""
    try:
        return bool(parse_json(domain.configuration)["clusteringColumns"] == [])
    except (ValueError, LookupError, TypeError):
        return False


def _logical(schema: StructType, path: Sequence[str]) -> ColumnPath:
    names: list[str] = []
    struct = schema
    for depth, part in enumerate(path):
        field = next((candidate for candidate in struct.fields if physical_name(candidate) == part), None)
        if field is None:
            raise Refusal(f"no column has the physical name {part}")
        names.append(field.name)
        if depth + 1 < len(path):
            if not isinstance(field.type, StructType):
                raise Refusal(f"{field.name} is not a struct")
            struct = field.type
    return tuple(names)
