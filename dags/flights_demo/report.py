"""The query of a day's report, shared by the live runs and the backfill."""

DELAYS_BY_CARRIER = """
SELECT flight_date, carrier, count(*) AS flights, avg(dep_delay) AS mean_dep_delay, avg(arr_delay) AS mean_arr_delay
FROM flights
WHERE flight_date = DATE'{{ ds }}'
GROUP BY flight_date, carrier
"""
