"""Which commits write change data files.

Protocol: PROTOCOL.md, "Change Data Files". If whole files are added or removed, or rows are deleted by deletion vectors,
    readers derive the changes; any other commit writes change data files, which then contain every row that it changes.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.change_feed.changed_range import ENABLED
from airflow_delta.core.log.record_counts import record_counts
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_features.feature import writer_features

_FEATURE = "changeDataFeed"


def records_changes(snapshot: Snapshot) -> bool:
    """Whether the table's change data feed is enabled."""
    is_asked = snapshot.metadata.configuration.get(ENABLED, "").lower() == "true"
    return is_asked and _FEATURE in writer_features(snapshot.protocol)


def keep_rows(files: pa.Table, deleted: pa.Array) -> bool:
    """Whether any of these files (``ADD_FILE``) keeps rows after so many (``deleted``) are deleted; True if unknown."""
    records = pa.chunked_array([record_counts(chunk) for chunk in files["stats"].chunks], pa.int64())
    hidden = pc.fill_null(pc.struct_field(files["deletion_vector"], "cardinality"), 0)
    return pc.all(pc.equal(pc.subtract(records, hidden), deleted), skip_nulls=False, min_count=0).as_py() is not True
