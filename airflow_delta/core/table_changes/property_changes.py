"""Changes of properties, constraints and clustering, computed as new table states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.table_changes.clustering import CLUSTERING_FEATURE, clustering_domain
from airflow_delta.core.table_changes.column_path import parse_path, path_text
from airflow_delta.core.table_changes.definition import ROW_TRACKING, with_row_tracking_columns
from airflow_delta.core.table_changes.definition_rules import check_clustering
from airflow_delta.core.table_changes.expressions import CONSTRAINT_PREFIX, check_constraints, columns_in
from airflow_delta.core.table_changes.properties import INTERNAL, check_timestamps_kept, requested, spelled
from airflow_delta.core.table_changes.refusal import Refusal
from airflow_delta.core.table_changes.schema_edit import find_column
from airflow_delta.core.table_changes.table_state import Change, TableState
from airflow_delta.core.table_features.feature import CATALOG_MANAGED, writer_features
from airflow_delta.core.table_features.protocol import at_least, upgraded
from airflow_delta.core.transaction.in_commit_timestamps import ENABLED as TIMESTAMPS_ENABLED

_COMMENT = "comment"
"""Not a property, but the table's description, as in Spark SQL."""


def set_properties(table: TableState, properties: Mapping[str, str]) -> Change:
    """Set properties, and add the features that they require; ``comment`` is the table's description.

    Raises:
        InvalidTablePropertyError: A property does not exist, or its value is invalid.
    """
    said = [value for name, value in properties.items() if name.lower() == _COMMENT]
    wanted = requested({name: value for name, value in properties.items() if name.lower() != _COMMENT})
    check_timestamps_kept(table.protocol, wanted.configuration)
    configuration = with_row_tracking_columns({**table.configuration, **wanted.configuration})
    metadata = table.with_configuration(configuration)
    if said:
        metadata = replace(metadata, description=said[-1])
    return Change(parameters={"properties": dict(properties)}, metadata=metadata, wanted=wanted)


def enables_row_tracking(properties: Mapping[str, str]) -> bool:
    """Whether these properties enable row tracking."""
    return any(name.lower() == ROW_TRACKING.lower() and value.lower() == "true" for name, value in properties.items())


def support_row_tracking(table: TableState) -> Change:
    """Support row tracking: new files get row ids, on which readers may not rely yet."""
    if table.is_on("delta.rowTrackingSuspended"):
        raise Refusal("row tracking is suspended", "set delta.rowTrackingSuspended to false first")
    protocol = upgraded(table.protocol, ["rowTracking"])
    return Change(parameters={"newProtocol": protocol.to_json()}, metadata=table.metadata, features=("rowTracking",))


def unset_properties(table: TableState, names: Sequence[str], *, if_exists: bool) -> Change:
    """Unset properties; the features that they required stay supported."""
    properties = spelled(names)
    for name in properties:
        if name in INTERNAL:
            raise Refusal(f"{name} is set by Delta only")
        if name == TIMESTAMPS_ENABLED and CATALOG_MANAGED & writer_features(table.protocol):
            raise Refusal(f"{name} is what the catalog that manages the table requires")
        if name.lower().startswith(CONSTRAINT_PREFIX):
            raise Refusal(f"{name} is a constraint", "use DROP CONSTRAINT")
        if name not in table.configuration and not if_exists:
            raise Refusal(f"{name} is not set", "leave it out, or use if_exists")
    kept = {key: value for key, value in table.configuration.items() if key not in properties}
    parameters = {"properties": list(properties), "ifExists": if_exists}
    return Change(parameters=parameters, metadata=table.with_configuration(kept))


def upgrade_protocol(table: TableState, reader_version: int, writer_version: int) -> Change:
    """Raise the protocol to at least these versions."""
    versions = {"delta.minReaderVersion": str(reader_version), "delta.minWriterVersion": str(writer_version)}
    wanted = requested(versions)
    protocol = at_least(table.protocol, reader_version=reader_version, writer_version=writer_version)
    return Change(parameters={"newProtocol": protocol.to_json()}, metadata=table.metadata, wanted=wanted)


def add_constraint(table: TableState, name: str, sql: str) -> Change:
    """Add a CHECK constraint; existing rows are not checked here."""
    if name_key(name) in map(name_key, check_constraints(table.configuration)):
        raise Refusal(f"the constraint {name} already exists", "drop it first, or choose another name")
    columns = columns_in(sql)
    if columns is None:
        raise Refusal(f"{sql!r} is not a SQL condition")
    for path in columns:
        find_column(table.schema, path)
    configuration = {**table.configuration, f"{CONSTRAINT_PREFIX}{name.lower()}": sql}
    return Change(parameters={"name": name, "expr": sql}, metadata=table.with_configuration(configuration))


def drop_constraint(table: TableState, name: str, *, if_exists: bool) -> Change:
    """Drop a CHECK constraint."""
    key = next(
        (
            property_name
            for property_name in table.configuration
            if name_key(property_name) == name_key(f"{CONSTRAINT_PREFIX}{name}")
        ),
        None,
    )
    if key is None:
        if if_exists:
            return Change(parameters={"name": name, "existed": "false"}, metadata=table.metadata)
        raise Refusal(f"the constraint {name} does not exist", "correct the name, or use if_exists")
    kept = {property_name: value for property_name, value in table.configuration.items() if property_name != key}
    parameters = {"name": name, "expr": table.configuration[key], "existed": "true"}
    return Change(parameters=parameters, metadata=table.with_configuration(kept))


def cluster_by(table: TableState, names: Sequence[str]) -> Change:
    """Set the clustering columns; none without names. Existing files stay unchanged."""
    columns = [find_column(table.schema, parse_path(name))[0] for name in names]
    check_clustering(table.uri, table.metadata, columns)
    old = table.clustering()
    parameters = {
        "oldClusteringColumns": ",".join(map(path_text, old)),
        "newClusteringColumns": ",".join(map(path_text, columns)),
    }
    domain = clustering_domain(table.schema, columns)
    return Change(
        parameters=parameters,
        metadata=table.metadata,
        features=(CLUSTERING_FEATURE,) if columns else (),
        domains=(domain,) if columns or old else (),
    )
