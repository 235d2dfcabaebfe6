"""Tables below a folder."""

import time

import pytest

from airflow_delta.core.errors import StorageAccessError, StorageUnavailableError
from airflow_delta.core.operations.table_search import find_tables
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.core.storage.resolve import log_store_for
from tests.core.object_stores import moto_server, s3  # noqa: F401 - fixtures

COMMIT = "_delta_log/00000000000000000000.json"
FILES = (
    f"a/{COMMIT}",
    "a/x=1/part.parquet",
    f"a/nested/{COMMIT}",  # inside of a table
    f"b/c/{COMMIT}",
    f"b/c.d/{COMMIT}",
    f"_hidden/{COMMIT}",
    f".hidden/{COMMIT}",
    f"deep/1/2/3/{COMMIT}",
    "files/part.parquet",
    f"b/ü 1/{COMMIT}",
)


@pytest.fixture(params=["local", "s3"])
def root(request, tmp_path):
    if request.param == "local":
        store = LocalLogStore(str(tmp_path))
    else:
        bucket = request.getfixturevalue("s3")
        store = log_store_for(f"{bucket.uri}/lake", bucket.options)
    for path in FILES:
        store.write(path, b"{}")
    return store


def test_tables_are_found_at_every_level_and_not_inside_of_tables(root):
    assert find_tables(root) == ["a", "b/c", "b/c.d", "b/ü 1"]
    assert find_tables(root, max_depth=4) == ["a", "b/c", "b/c.d", "b/ü 1", "deep/1/2/3"]
    assert find_tables(root, max_depth=1) == ["a"]
    assert find_tables(root, pattern="c*") == ["b/c", "b/c.d"]
    assert find_tables(root, pattern="b/?") == ["b/c"]


def test_the_folder_itself_may_be_a_table_and_a_missing_one_or_a_file_has_none(tmp_path):
    store = LocalLogStore(str(tmp_path / "t"))
    assert find_tables(store) == []
    (tmp_path / "file").touch()
    assert find_tables(LocalLogStore(str(tmp_path / "file"))) == []
    store.write(COMMIT, b"{}")
    assert find_tables(store) == [""]
    assert find_tables(store, pattern="x") == []


@pytest.mark.slow
def test_a_thousand_tables_on_s3_are_found_within_twenty_seconds(s3):  # noqa: F811 - the fixture
    for number in range(1_000):
        s3.client.put_object(Bucket=s3.bucket, Key=f"lake/{number // 100}/t{number:04d}/{COMMIT}", Body=b"{}")
    start = time.process_time()  # of the search and of moto, which is in this process: the machine may be busy
    found = find_tables(log_store_for(f"{s3.uri}/lake", s3.options))
    seconds = time.process_time() - start
    assert (len(found), found[0], found[-1]) == (1_000, "0/t0000", "9/t0999")
    assert seconds < 20


@pytest.mark.parametrize(
    ("answer", "error"), [("ACCESS_DENIED", StorageAccessError), ("NETWORK_CONNECTION", StorageUnavailableError)]
)
def test_a_storage_that_refuses_or_does_not_answer_is_a_typed_error(tmp_path, monkeypatch, answer, error):
    store = LocalLogStore(str(tmp_path))

    class Failing:
        def get_file_info(self, place):
            raise OSError(f"When getting information for key '{place}': AWS Error {answer} during HeadObject operation")

    monkeypatch.setattr(store, "data_filesystem", lambda: (Failing(), "/lake"))
    with pytest.raises(error, match=answer):
        find_tables(store)
