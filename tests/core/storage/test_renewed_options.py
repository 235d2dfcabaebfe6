"""Storage options whose keys end before the work does."""

import pickle
from functools import partial

from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.renewed_options import RenewedOptions, current_options
from airflow_delta.core.storage.resolve import log_store_for
from airflow_delta.core.storage.table_filesystems import TableFilesystems

BESIDE = {"endpoint_url": "http://127.0.0.1:9", "key": "own"}
held = {"key": "first-key", "secret": "first-secret"}


def source():
    """Travels by its name, as a catalog's does by that of the table."""
    return dict(held)


def renewed(**keys):
    held.update(keys)


def options():
    renewed(key="first-key", secret="first-secret")
    return RenewedOptions(source, BESIDE)


def key_of(filesystem):
    return filesystem.__reduce__()[1][0]["access_key"]


def test_they_are_those_of_the_moment_and_go_before_what_does_not_end():
    found = options()
    assert dict(found) == {"endpoint_url": "http://127.0.0.1:9", "key": "first-key", "secret": "first-secret"}
    renewed(key="second-key")
    assert (found["key"], len(found), bool(found)) == ("second-key", 3, True)
    assert current_options(found) == {"endpoint_url": "http://127.0.0.1:9", "key": "second-key", "secret": "first-secret"}
    assert current_options(BESIDE) is BESIDE


def test_without_any_they_are_false():
    assert not RenewedOptions(dict, {})


def test_no_value_of_the_source_travels_or_is_shown():
    travelling = pickle.dumps(options())
    assert b"first-" not in travelling
    assert "first-" not in repr(options())
    renewed(key="second-key")
    assert pickle.loads(travelling)["key"] == "second-key"


def test_a_files_filesystem_is_made_anew_when_the_keys_have_changed_and_only_then():
    filesystems = TableFilesystems("s3://lake/orders", options())
    first, root = filesystems()
    assert (key_of(first), root) == ("first-key", "lake/orders")
    assert filesystems()[0] is first
    renewed(key="second-key")
    assert key_of(filesystems()[0]) == "second-key"
    assert key_of(filesystems("s3://lake/other/file")[0]) == "second-key"


def test_a_locator_that_lives_on_opens_each_file_by_the_keys_of_the_moment():
    locate = FileLocator(TableFilesystems("s3://lake/orders", options()), "s3://lake/orders")
    assert key_of(locate("a.parquet")[0]) == "first-key"
    renewed(key="second-key")
    assert key_of(locate("b.parquet")[0]) == "second-key"


def test_a_store_goes_on_with_the_keys_of_the_moment_and_so_does_whoever_has_taken_something_of_it():
    store = log_store_for("s3://lake/orders", options())
    kept, make = store.storage_options, store.data_filesystem
    locate = FileLocator.from_store(store)
    assert [key_of(make()[0]), key_of(locate("a")[0])] == ["first-key"] * 2
    renewed(key="second-key")
    assert [key_of(make()[0]), key_of(locate("a")[0]), kept["key"]] == ["second-key"] * 3
    assert b"-key" not in pickle.dumps(partial(TableFilesystems, store.table_uri, store.storage_options))
