"""A try of a task: which version of the table the worker sees, and when results need another location."""

from types import SimpleNamespace

import pytest

from airflow_delta.core.errors import StorageAccessError
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.operators.attempt import visible_head
from tests.core.rights import as_a_user_without_rights


def hook_of(log_store):
    """The hook of a connection without a catalog, whose tables are opened by the given function."""
    return SimpleNamespace(
        workers_see_tables=True, delta_conn_id="lake", log_store=log_store, is_session_name=lambda _table: False
    )


def test_a_table_without_rights_is_the_error_not_the_scratch_uri_that_would_only_hide_it(tmp_path):
    hook = hook_of(LocalLogStore)
    table = tmp_path / "table"
    LocalLogStore(str(table)).write("_delta_log/00000000000000000000.json", b"{}")
    with as_a_user_without_rights(table):
        with pytest.raises(StorageAccessError, match="Permission denied") as caught:
            visible_head(hook, str(table), None)
        assert visible_head(hook, str(table), "/scratch") is None
    assert (type(caught.value), caught.value.retryable) == (StorageAccessError, False)


def test_a_store_that_refuses_is_the_error_not_the_scratch_uri_that_would_only_hide_it():
    refusal = StorageAccessError(uri="s3://lake/t", detail="NoCredentialsError: Unable to locate credentials")

    def log_store(_):
        raise refusal

    hook = hook_of(log_store)
    with pytest.raises(StorageAccessError) as caught:
        visible_head(hook, "s3://lake/t", None)
    assert caught.value is refusal
