"""Traces of a feature to be dropped: those removed automatically, and those that the user must remove first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from airflow_delta.core.actions import CommitActions, DomainMetadata, Metadata
from airflow_delta.core.table_changes.clustering import has_no_columns
from airflow_delta.core.table_changes.expressions import check_constraints
from airflow_delta.core.table_changes.refusal import Refusal
from airflow_delta.core.table_features.feature import CLUSTERING, DELETION_VECTORS, FEATURES

ROW_TRACKING_DOMAIN = "delta.rowTracking"
SUSPENDED = "delta.rowTrackingSuspended"
PROTECTED_BEFORE = "delta.requireCheckpointProtectionBeforeVersion"

_SWITCHED_OFF: Mapping[str, Mapping[str, str | None]] = {
    "deletionVectors": {"delta.enableDeletionVectors": "false"},
    "inCommitTimestamp": {
        "delta.enableInCommitTimestamps": "false",
        "delta.inCommitTimestampEnablementTimestamp": None,
        "delta.inCommitTimestampEnablementVersion": None,
    },
    "rowTracking": {
        "delta.enableRowTracking": "false",
        "delta.rowTracking.materializedRowIdColumnName": None,
        "delta.rowTracking.materializedRowCommitVersionColumnName": None,
        SUSPENDED: "true",
    },
    "typeWidening": {"delta.enableTypeWidening": "false"},
    "typeWidening-preview": {"delta.enableTypeWidening": "false"},
    "v2Checkpoint": {"delta.checkpointPolicy": "classic"},
    "variantShredding": {"delta.enableVariantShredding": "false"},
    "variantShredding-preview": {"delta.enableVariantShredding": "false"},
}
"""Properties set (None: unset) before the feature is dropped. Properties that are guarantees to users are not included."""

_CURES: Mapping[str, str] = {
    "appendOnly": "set delta.appendOnly to false first",
    "changeDataFeed": "set delta.enableChangeDataFeed to false first",
    "checkConstraints": "drop the constraints first",
    **{f"iceberg{name}": f"set delta.enableIceberg{name} to false first" for name in ("CompatV1", "CompatV2", "CompatV3")},
    **{f"icebergWriterCompat{version}": "write the rows into a new table: it cannot be disabled" for version in ("V1", "V3")},
    "columnMapping": "write the rows into a new table: its data files know the columns only by their physical names",
    "typeWidening": "write the rows into a new table: data files still have the narrower types",
    "typeWidening-preview": "write the rows into a new table: data files still have the narrower types",
}
_USED_COLUMNS = "write the rows into a table without such columns, or drop the columns first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What is removed together with a feature.

    Attributes:
        configuration: The table's properties afterwards.
        domains: The domains that are removed.
    """

    configuration: Mapping[str, str]
    domains: tuple[DomainMetadata, ...] = field(default=())


def switched_off(feature: str, configuration: Mapping[str, str]) -> dict[str, str]:
    """The table properties with which no writer uses the feature any more."""
    wanted = _SWITCHED_OFF.get(feature, {})
    kept = {key: value for key, value in configuration.items() if wanted.get(key, value) is not None}
    changes = {key: value for key, value in wanted.items() if value is not None and (key in kept or key == SUSPENDED)}
    return {**kept, **changes}


def check_unused(feature: str, metadata: Metadata) -> None:
    """Return if a table with this metadata does not use the feature after it was disabled.

    Raises:
        Refusal: The schema, or a guarantee to users, requires the feature.
    """
    off = replace(metadata, configuration=switched_off(feature, metadata.configuration))
    if is_used_by(feature, off):
        raise Refusal(_use(feature, metadata), _CURES.get(feature, _USED_COLUMNS))


def leftovers(feature: str, metadata: Metadata, domains: Mapping[str, DomainMetadata]) -> Leftovers:
    """What is removed together with the feature, from a table in which it is disabled.

    Raises:
        Refusal: The table uses the feature.
    """
    check_unused(feature, metadata)
    ending = {"rowTracking": (ROW_TRACKING_DOMAIN,), "clustering": (CLUSTERING,), "domainMetadata": tuple(domains)}
    owners = [name for name in ending.get(feature, ()) if not name.startswith("delta.")]
    if owners:
        raise Refusal(f"the table has the metadata domains {', '.join(owners)}", "remove these domains first")
    if feature == "clustering" and CLUSTERING in domains and not has_no_columns(domains[CLUSTERING]):
        raise Refusal("the table has clustering columns", "cluster it by no columns first")
    ended = tuple(replace(domains[name], removed=True) for name in ending.get(feature, ()) if name in domains)
    gone = {"rowTracking": SUSPENDED, "checkpointProtection": PROTECTED_BEFORE}.get(feature)
    kept = {key: value for key, value in metadata.configuration.items() if key != gone}
    return Leftovers(configuration=kept, domains=ended)


def is_used_by(feature: str, metadata: Metadata) -> bool:
    """Whether a table with this metadata uses the feature."""
    known = FEATURES[feature]
    return known.is_needed(metadata) or (known.shows_in_metadata and known.in_use(metadata))


def have_deletion_vectors(files: pa.Table) -> bool:
    """Whether one of these files (``ADD_FILE``) has a deletion vector."""
    return bool(files["deletion_vector"].null_count < len(files))


def is_used_in(feature: str, actions: CommitActions) -> bool:
    """Whether a commit uses the feature."""
    marks = feature == DELETION_VECTORS and have_deletion_vectors(actions.adds)
    return marks or bool(actions.metadata and is_used_by(feature, actions.metadata))


def _use(feature: str, metadata: Metadata) -> str:
    if feature == "checkConstraints":
        return f"the table has the constraints {', '.join(check_constraints(metadata.configuration))}"
    return "the schema or a property of the table uses it"
