"""A file that lies where a table is to be made. No table has it: the first vacuum would delete it with those that are gone.

Spark: ``DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION``.
"""

from __future__ import annotations

import re

from airflow_delta.core.operations.convert import HIDDEN
from airflow_delta.core.storage.log_store import LogStore


def find_stray_file(store: LogStore) -> str | None:
    """The path below the root of the first such file of a listing; None where all are hidden, as the log is.

    Raises:
        OSError: The storage does not answer.
    """
    return next((file.path for file in store.list_all() if not re.search(HIDDEN, file.path)), None)
