"""The three tables of the flights pipeline, as templates that the DAGs share."""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_ROOT = os.environ.get("FLIGHTS_ROOT", str(Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "flights"))
"""Directory of all data unless the run's parameter ``root`` names another."""

ARRIVALS = "{{ params.root }}/arrivals"
"""Bronze: each day's feed as received, partitioned by ``feed_date``."""
FLIGHTS = "{{ params.root }}/flights"
"""Silver: one row per flight, partitioned by ``flight_date``."""
FLIGHTS_COLUMNS = {
    "kind": "STRING COMMENT 'schedule or actual'",
    "flight_date": "DATE",
    "dep_time": "INT COMMENT 'local, hmm'",
    "sched_dep_time": "INT",
    "dep_delay": "INT COMMENT 'minutes'",
    "arr_time": "INT COMMENT 'local, hmm'",
    "sched_arr_time": "INT",
    "arr_delay": "INT COMMENT 'minutes'",
    "carrier": "STRING",
    "flight": "INT",
    "tailnum": "STRING",
    "origin": "STRING",
    "dest": "STRING",
    "air_time": "INT COMMENT 'minutes'",
    "distance": "INT COMMENT 'miles'",
    "hour": "INT",
    "minute": "INT",
    "time_hour": "TIMESTAMP COMMENT 'the hour of the planned departure'",
}
"""Silver's columns: those of the feed except ``feed_date``."""
DELAYS = "{{ params.root }}/delays"
"""Gold: delays by carrier, partitioned by ``flight_date``."""
