"""Where the rows of a Spark plan become files, and what these hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_delta.core.schema import StructType
from airflow_delta.spark.io.staging import StagingArea


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileSink:
    """A folder of a staging area, and its files as they are to be.

    Attributes:
        staging: Where the folder lies.
        folder: Relative to it.
        columns: What the files hold; under physical names where the columns have them.
        configuration: The table's properties, which choose the columns with statistics.
        directory: Name of a further column; the files lie in one directory ``directory=value`` for each of its values.
    """

    staging: StagingArea
    folder: str
    columns: StructType
    configuration: Mapping[str, str]
    directory: str | None = None
