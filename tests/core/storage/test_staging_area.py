"""When the files of a statement go, and when they stay."""

import pyarrow.fs as pafs
import pytest

from airflow_delta.core.errors import CommitStateUnknownError, StorageAccessError
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.core.storage.staging_area import StagingArea

REFUSED = StorageAccessError(uri="t", detail="no")
UNKNOWN = CommitStateUnknownError(table="t", version=1, txn_id="x", detail="timeout")


def kept(area):
    """Do nothing: the area keeps the files of the commit."""


def committed(area):
    area.settle(unused=False)


def committed_by_another_attempt(area):
    area.settle(unused=True)


def released(area):
    area.release()


@pytest.mark.parametrize(
    ("act", "error", "stays"),
    [
        (kept, None, True),
        (kept, UNKNOWN, True),
        (kept, KeyboardInterrupt(), True),
        (kept, REFUSED, False),
        (released, None, False),
        (committed, None, True),
        (committed, REFUSED, True),
        (committed_by_another_attempt, None, False),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__) if not isinstance(value, bool) else str(value),
)
def test_files_go_when_nothing_was_committed_and_stay_when_something_was_or_may_have_been(tmp_path, act, error, stays):
    area = StagingArea(LocalLogStore(str(tmp_path)))
    files = [tmp_path / each.name / "rows/a.parquet" for each in (area, area.changes)]
    for file in files:
        pafs.LocalFileSystem().create_dir(str(file.parent))
        file.write_bytes(b"x")

    def run():
        with area:
            area.keep()
            act(area)
            if error is not None:
                raise error

    if error is None:
        run()
    else:
        with pytest.raises(type(error)):
            run()
    assert [file.exists() for file in files] == [stays, stays]
