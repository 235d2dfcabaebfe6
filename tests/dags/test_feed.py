from datetime import date

import pandas as pd
import pyarrow.parquet as pq
import pytest

from flights_demo.feed import ACTUAL_COLUMNS, arrivals_feed, packaged_csv, read_flights, write_feed

KEY = ["time_hour", "carrier", "flight"]


@pytest.fixture(scope="module")
def flights():
    return read_flights(packaged_csv("flights.csv.zip"))


@pytest.fixture(scope="module")
def truth():
    frame = pd.read_csv(packaged_csv("flights.csv.zip"))
    frame["flight_date"] = pd.to_datetime(frame[["year", "month", "day"]]).dt.date
    return frame


def sorted_rows(frame, columns):
    """Rows as tuples of texts, so that 5 and 5.0 and every kind of missing value compare equal."""
    frame = frame[columns].copy()
    frame["time_hour"] = pd.to_datetime(frame["time_hour"], utc=True).astype(str)
    numbers = frame.select_dtypes("number").columns
    frame[numbers] = frame[numbers].astype("Int64")
    return sorted(map(tuple, frame.astype("string").fillna("").to_numpy().tolist()))


def test_all_flights_are_read_as_pandas_reads_them(flights, truth):
    columns = [name for name in flights.column_names if name != "flight_date"]
    assert len(flights) == 336_776
    assert flights["flight_date"].to_pylist() == truth["flight_date"].tolist()
    assert sorted_rows(flights.to_pandas()[:20_000], columns) == sorted_rows(truth[:20_000], columns)


@pytest.mark.parametrize("day", [date(2013, 1, 1), date(2013, 2, 28), date(2013, 12, 30)])
def test_a_feed_holds_the_days_actuals_and_the_next_days_schedule(flights, truth, day):
    feed = arrivals_feed(flights, day).to_pandas()
    next_day = pd.Timestamp(day).to_pydatetime().date() + pd.Timedelta(days=1)
    actual, schedule = feed[feed.kind == "actual"], feed[feed.kind == "schedule"]
    columns = [name for name in feed.columns if name not in ("feed_date", "kind")]
    planned = [name for name in columns if name not in ACTUAL_COLUMNS]

    assert len(actual) + len(schedule) == len(feed)
    assert set(feed.feed_date) == {day}
    assert sorted_rows(actual, columns) == sorted_rows(truth[truth.flight_date == day], columns)
    assert sorted_rows(schedule, planned) == sorted_rows(truth[truth.flight_date == next_day], planned)
    assert schedule[list(ACTUAL_COLUMNS)].isna().all(axis=None)


def test_the_key_names_one_flight_of_the_year(truth):
    assert not truth.duplicated(KEY).any()


def test_a_feed_written_twice_is_one_file_with_equal_rows(tmp_path):
    source = packaged_csv("flights.csv.zip")
    first = pq.read_table(write_feed(source, date(2013, 1, 1), tmp_path))
    again = pq.read_table(write_feed(source, date(2013, 1, 1), tmp_path))
    assert again.equals(first)
    assert len(first) == 842 + 943
    assert sorted(path.name for path in tmp_path.iterdir()) == ["airlines.csv", "arrivals-2013-01-01.parquet"]
