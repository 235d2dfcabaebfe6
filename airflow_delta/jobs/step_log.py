"""The log of a job: one line per step, on standard error, where Spark's driver writes its log."""

from __future__ import annotations

import logging

from airflow_delta.core.foreign_values import printable_lines

PACKAGE = "airflow_delta"


def log_steps() -> None:
    """Write this package's log from INFO on to standard error; loggers of other packages are not changed."""
    logger = logging.getLogger(PACKAGE)
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(_StepFormatter())
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # the root logger may write its own lines


class _StepFormatter(logging.Formatter):
    """Seconds since the process began, and the message; log collectors add the time of day."""

    def format(self, record: logging.LogRecord) -> str:
        level = "" if record.levelno == logging.INFO else f"{record.levelname}: "
        return f"{record.relativeCreated / 1000:6.1f} s  {level}{printable_lines(super().format(record))}"
