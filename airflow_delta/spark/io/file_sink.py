"""Where the rows of a Spark plan are written, and what the files contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_delta.core.schema import StructType
from airflow_delta.spark.io.staging import StagingArea


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileSink:
    """A folder of a staging area, and the form of the files to write.

    Attributes:
        staging: The staging area.
        folder: The folder, relative to the staging area.
        columns: The columns of the files; mapped ones with physical names.
        configuration: The table's properties, which select the columns with statistics.
        directory: Name of an additional column; files are placed in a directory ``directory=value`` for each of its values.
    """

    staging: StagingArea
    folder: str
    columns: StructType
    configuration: Mapping[str, str]
    directory: str | None = None
