"""Settings of a test's session."""

import datetime as dt
from contextlib import contextmanager


@contextmanager
def session_settings(spark, settings):
    """Run a block with these session settings; always restores the previous ones."""
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
    """A time zone in which the date differs from Pacific/Kiritimati's at any hour, and midnight is not near."""
    return "Etc/GMT+11" if dt.datetime.now(dt.UTC).hour == 11 else "Etc/GMT+12"
