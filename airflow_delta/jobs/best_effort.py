"""Work after a commit: a failure there becomes a warning, because a commit must never be reported as failed."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from airflow_delta.core.errors import DeltaError
from airflow_delta.core.foreign_values import printable
from airflow_delta.jobs.redaction import redact

_LONGEST = 500  # characters of an error in a warning

_logger = logging.getLogger(__name__)


class BestEffort:
    """Runs pieces of work after a commit, and collects a warning for each that fails.

    Attributes:
        warnings: One text for each failure, without secrets and control characters.
    """

    def __init__(self, warnings: Iterable[str] = ()) -> None:
        self.warnings = [printable(redact(warning)) for warning in warnings]

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """Run the body to its end or to its first exception, which becomes a warning.

        Args:
            what: The piece of work, as the subject of "failed".
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the commit stands
            self.warnings.append(f"{what} failed: {_summary(error)}")
            _logger.warning("%s", self.warnings[-1])


def _summary(error: Exception) -> str:
    text = str(error) if isinstance(error, DeltaError) else f"{type(error).__name__}: {error}"
    return printable(redact(text[:_LONGEST]))
