"""Finds a file in the place of a new table. It would not belong to the table, and the table's first vacuum would delete it.

Spark: ``DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION``.
"""

from __future__ import annotations

import re

from airflow_delta.core.operations.convert import HIDDEN
from airflow_delta.core.storage.log_store import LogStore


def find_stray_file(store: LogStore) -> str | None:
    """Path below the root of the first file found; None if there are only hidden ones, such as the log.

    Raises:
        OSError: The storage does not answer.
    """
    return next((file.path for file in store.list_all() if not re.search(HIDDEN, file.path)), None)
