"""The three tables of the flights pipeline, as templates that both DAGs use, and the making of the second one."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import Metadata, Origin
from airflow_delta.core.schema.arrow_conversion import struct_from_arrow
from airflow_delta.core.schema.schema_json import schema_json
from airflow_delta.core.transaction.operation import Operation

DEFAULT_ROOT = os.environ.get("FLIGHTS_ROOT", str(Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "flights"))
"""Where everything lies unless the run's parameter ``root`` says otherwise."""

ARRIVALS = "{{ params.root }}/arrivals"
"""Bronze: each day's feed as it came, partitioned by ``feed_date``."""
FLIGHTS = "{{ params.root }}/flights"
"""Silver: one row per flight, partitioned by ``flight_date``."""
DELAYS = "{{ params.root }}/delays"
"""Gold: delays by carrier, partitioned by ``flight_date``."""


def create_flights(table: str, feed: str, origin: Origin) -> int:
    """Make the silver table, which a MERGE needs, with the feed's columns unless it is there; no Spark takes part.

    Args:
        table: URI of the table's root.
        feed: Path of a feed.
        origin: Who asks; every history shows it.

    Returns:
        The table's latest version.
    """
    log = DeltaLog.for_table(table)
    if log.exists():
        return log.snapshot().version
    columns = pa.schema([column for column in pq.read_schema(feed) if column.name != "feed_date"])
    metadata = Metadata(
        id=str(uuid.uuid4()), schema_string=schema_json(struct_from_arrow(columns)), partition_columns=("flight_date",)
    )
    operation = Operation(name="CREATE TABLE", changes_data=False)
    return log.create_transaction(metadata).commit(operation=operation, origin=origin).version
