"""Row tracking: each added file records its first row id, and the table records the highest id ever assigned.

Protocol: PROTOCOL.md, "Row Tracking".
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions, DomainMetadata, Metadata, Protocol
from airflow_delta.core.actions.json_object import JsonObject
from airflow_delta.core.errors import CorruptLogError, InvalidCommitError, MissingRecordCountError
from airflow_delta.core.json_text import parse_json
from airflow_delta.core.log.action_reconciliation import canonical_paths
from airflow_delta.core.log.file_names import LOG_DIRECTORY
from airflow_delta.core.log.record_counts import record_counts
from airflow_delta.core.table_features.feature import writer_features

ROW_TRACKING = "rowTracking"
ROW_TRACKING_DOMAIN = "delta.rowTracking"
PRESERVED_TAG = "delta.rowTracking.preserved"
ENABLED_PROPERTY = "delta.enableRowTracking"
SUSPENDED_PROPERTY = "delta.rowTrackingSuspended"

_IDS = ("base_row_id", "default_row_commit_version")


def numbers_rows(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether commits assign row ids: if the feature is supported, unless a table property suspends it."""
    is_suspended = metadata.configuration.get(SUSPENDED_PROPERTY, "").lower() == "true"
    return ROW_TRACKING in writer_features(protocol) and not is_suspended


def is_enabled(metadata: Metadata) -> bool:
    """Whether row tracking is enabled, so that readers rely on row ids and commits must record whether they preserved them."""
    return metadata.configuration.get(ENABLED_PROPERTY, "").lower() == "true"


def high_water_mark(domains: Iterable[DomainMetadata], table: str) -> int | None:
    """The highest row id assigned, as recorded in these domains; None where none of them records it.

    Raises:
        CorruptLogError: The domain's text is not in the form of the protocol.
    """
    for domain in domains:
        if domain.domain == ROW_TRACKING_DOMAIN and not domain.removed:
            try:
                return JsonObject(parse_json(domain.configuration)).required("rowIdHighWaterMark", int)
            except (ValueError, LookupError, TypeError) as error:
                detail = f"the domain {ROW_TRACKING_DOMAIN} holds {domain.configuration!r:.200}"
                raise CorruptLogError(table=table, file=LOG_DIRECTORY, detail=detail) from error
    return None


def with_row_ids(
    actions: CommitActions, table: str, *, known: int, given_out: int, version: int, lost_version: int | None = None
) -> CommitActions:
    """The commit with row ids for its new rows, and the new high-water mark.

    A base row id up to ``known`` belongs to rows that already had ids, and is kept. Any higher one was assigned by this commit
    on an earlier attempt, and may have been taken by another writer since: it is assigned again, as is a missing one.

    Args:
        actions: The commit.
        table: URI of its table, for errors.
        known: The high-water mark on which the commit's current ids are based.
        given_out: The high-water mark now.
        version: The version that the commit will take.
        lost_version: The version that the commit tried before.

    Raises:
        InvalidCommitError: The range of row ids is exhausted, as a damaged log may claim.
        MissingRecordCountError: The statistics of a new file lack its number of rows.
    """
    adds = actions.adds
    ids, versions = (adds[name].combine_chunks() for name in _IDS)
    is_new = pc.fill_null(pc.greater(ids, known), True)
    new = adds.filter(is_new)
    counts = record_counts(new["stats"].combine_chunks())
    if counts.null_count:
        raise MissingRecordCountError(table=table, path=new["path"].filter(counts.is_null())[0].as_py(), needed_for="row ids")
    try:
        ends = pc.add_checked(pc.cumulative_sum_checked(counts), given_out)
    except pa.ArrowInvalid as error:
        detail = f"the ids of its rows, after {given_out}, would not fit into 64 bits"
        raise InvalidCommitError(table=table, detail=detail) from error
    starts = pc.add(pc.subtract(ends, counts), 1)
    to_set = pc.is_null(versions) if lost_version is None else pc.fill_null(pc.equal(versions, lost_version), True)
    adds = _with_column(adds, "base_row_id", pc.replace_with_mask(ids, is_new, starts))
    adds = _with_column(adds, "default_row_commit_version", pc.if_else(to_set, pa.scalar(version, pa.int64()), versions))
    domains = tuple(domain for domain in actions.domains if domain.domain != ROW_TRACKING_DOMAIN)
    if len(new):
        domains = (_domain(ends[-1].as_py()), *domains)
    elif len(domains) < len(actions.domains):  # set by the caller, or for files that a conflict rule has removed since
        domains = (_domain(given_out), *domains)
    return replace(actions, adds=adds, domains=domains)


def with_ids_of(actions: CommitActions, backfilled: pa.Table) -> CommitActions:
    """The commit, in which files that a backfill has meanwhile given row ids (``ADD_FILE``) carry those ids."""
    return replace(
        actions,
        adds=_with_ids(actions.adds, backfilled),
        removes=_with_ids(actions.removes, backfilled),
    )


def without_files(actions: CommitActions, paths: pa.ChunkedArray) -> CommitActions:
    """The commit without the adds of these paths: for a backfill, which no longer needs to handle them."""
    named = pc.is_in(canonical_paths(actions.adds["path"]), canonical_paths(paths).combine_chunks())
    return replace(actions, adds=actions.adds.filter(pc.invert(named)))


def with_ids_taken_away(actions: CommitActions, added: pa.Table) -> CommitActions:
    """The commit of an unbackfill, which now also adds again, without row ids, the files that a winner added with them."""
    has_ids = pc.or_(*(pc.is_valid(added[name]) for name in _IDS))
    bare = added.filter(has_ids)
    for name in _IDS:
        bare = _with_column(bare, name, pa.nulls(len(bare), pa.int64()))
    bare = _with_column(bare, "data_change", pa.repeat(pa.scalar(False), len(bare)))
    return replace(actions, adds=pa.concat_tables([actions.adds, bare]))


def _with_ids(files: pa.Table, backfilled: pa.Table) -> pa.Table:
    found = pc.index_in(canonical_paths(files["path"]), canonical_paths(backfilled["path"]).combine_chunks())
    for name in _IDS:
        files = _with_column(files, name, pc.coalesce(backfilled[name].take(found), files[name]))
    return files


def _with_column(files: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    index = files.schema.get_field_index(name)
    return files.set_column(index, files.schema.field(index), values)


def _domain(mark: int) -> DomainMetadata:
    configuration = json.dumps({"rowIdHighWaterMark": mark, "domainName": ROW_TRACKING_DOMAIN}, separators=(",", ":"))
    return DomainMetadata(domain=ROW_TRACKING_DOMAIN, configuration=configuration)
