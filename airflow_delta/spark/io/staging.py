"""The staging area of a statement on Spark, with the files that Spark wrote to it."""

from __future__ import annotations

import pyarrow.fs as pafs

from airflow_delta.core.storage import staging_area
from airflow_delta.spark.io.data_paths import hadoop_uri, log_path


class StagingArea(staging_area.StagingArea):
    """A directory inside the table for the files of one statement: see ``core/storage/staging_area.py``."""

    @property
    def uri(self) -> str:
        """The directory as a URI for Spark and ``data_filesystem``."""
        return f"{hadoop_uri(self.table_uri)}/{self.name}"

    def list_files(self, folder: str) -> list[pafs.FileInfo]:
        """The data files below a folder of this directory, with sizes in bytes."""
        selector = pafs.FileSelector(f"{self.root}/{self.name}/{folder}", allow_not_found=True, recursive=True)
        files = (info for info in self.filesystem.get_file_info(selector) if info.type == pafs.FileType.File)
        return [info for info in files if info.extension == "parquet" and info.base_name[0] not in "._"]

    def log_path(self, path: str) -> str:
        """A listed file of this directory as a path of the log: relative to the table, percent-encoded."""
        return log_path(path.removeprefix(self.root).lstrip("/"))
