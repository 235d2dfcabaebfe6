"""Settings of a test's session."""

import datetime as dt
from contextlib import contextmanager


@contextmanager
def session_settings(spark, settings):
    """Run a step under these settings of the session; those before come back whatever happens."""
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, former in before.items():
            if former is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, former)


def zone_of_another_day():
    """A zone where it is not the day of Pacific/Kiritimati, whatever the hour, nor midnight soon."""
    return "Etc/GMT+11" if dt.datetime.now(dt.UTC).hour == 11 else "Etc/GMT+12"
