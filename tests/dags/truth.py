"""Expected content of the flights tables, as SQL over the CSV, and its comparison with what two other engines read."""

import pandas as pd
from deltalake import DeltaTable

from flights_demo.feed import packaged_csv

PLANNED = (
    "flight_date, sched_dep_time, sched_arr_time, carrier, flight, tailnum, origin, dest, distance, hour, minute, time_hour"
)
TIMES = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
ACTUAL = f"{PLANNED}, {', '.join(TIMES)}"
SCHEDULE = f"{PLANNED}, {', '.join(f'NULL AS {name}' for name in TIMES)}"


def with_flights(duckdb_connection):
    """duckdb with the CSV's flights as table ``csv``."""
    frame = pd.read_csv(packaged_csv("flights.csv.zip"))
    frame["flight_date"] = pd.to_datetime(frame[["year", "month", "day"]])
    frame["time_hour"] = pd.to_datetime(frame["time_hour"], utc=True)
    duckdb_connection.register("raw", frame)
    duckdb_connection.execute("CREATE OR REPLACE TABLE csv AS SELECT * REPLACE (flight_date::DATE AS flight_date) FROM raw")
    duckdb_connection.unregister("raw")
    return duckdb_connection


def arrivals_of(days):
    """The expected bronze table after the runs of these days."""
    return " UNION ALL ".join(
        f"""
        SELECT DATE '{day}' AS feed_date, 'actual' AS kind, {ACTUAL} FROM csv WHERE flight_date = DATE '{day}'
        UNION ALL
        SELECT DATE '{day}', 'schedule', {SCHEDULE} FROM csv WHERE flight_date = DATE '{day}' + 1
        """
        for day in days
    )


def delays_of(days):
    """The expected gold table after the runs of these days."""
    return f"""
        SELECT flight_date, carrier, count(*) AS flights, avg(dep_delay) AS mean_dep_delay, avg(arr_delay) AS mean_arr_delay
        FROM csv WHERE flight_date IN ({", ".join(f"DATE '{day}'" for day in days)}) AND dep_time IS NOT NULL
        GROUP BY flight_date, carrier
    """


def assert_holds(reference_reader, table, truth):
    """Compare the table's rows, as read by deltalake and by duckdb, with those of the query."""
    reference_reader.register("by_deltalake", DeltaTable(table).to_pyarrow_table())
    for engine in ("by_deltalake", f"delta_scan('{table}')"):
        columns = reference_reader.sql(truth).columns
        found = f"SELECT {', '.join(columns)} FROM {engine}"
        missing = reference_reader.sql(f"({truth}) EXCEPT ALL ({found})").fetchall()
        surplus = reference_reader.sql(f"({found}) EXCEPT ALL ({truth})").fetchall()
        assert (missing, surplus) == ([], []), f"{table} as {engine} reads it"
