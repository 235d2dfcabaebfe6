"""A retry finds its token; a cleared task and a changed statement do not."""

import pytest
from airflow.sdk import NEVER_EXPIRE

from airflow_delta.hooks.task_token import STATE_KEY, TokenScopedStore, task_token


class DictStore(dict):
    def set(self, key, value, *, retention=None):
        self[key] = value

    def delete(self, key):
        self.pop(key, None)


def token_of(store, *, clear_count=1, digest="statement", on_clear="rerun", head=7):
    return task_token(store, clear_count=clear_count, digest=digest, on_clear=on_clear, head=lambda: head)


def test_the_first_try_mints_a_token_and_stores_it_with_the_version_of_the_table():
    store = DictStore()
    token = token_of(store)
    assert (token.is_new, token.start_version, len(token.token)) == (True, 7, 32)
    assert store[STATE_KEY] == {"token": token.token, "start_version": 7, "digest": "statement", "generation": 1}


def test_a_retry_finds_the_token_and_the_version_of_then():
    store = DictStore()
    first, retry = token_of(store), token_of(store, head=9)
    assert (retry.token, retry.start_version, retry.is_new) == (first.token, 7, False)


@pytest.mark.parametrize("head", [-1, None], ids=["no table", "not visible"])
def test_there_may_be_no_version(head):
    store = DictStore()
    assert token_of(store, head=head).start_version == head
    assert token_of(store, head=3).start_version == head


def test_a_cleared_task_gets_a_new_token():
    store = DictStore()
    first, cleared = token_of(store, clear_count=1), token_of(store, clear_count=2, head=9)
    assert cleared.token != first.token
    assert (cleared.is_new, cleared.start_version) == (True, 9)


def test_a_cleared_task_may_reuse_the_token():
    store = DictStore()
    assert token_of(store, clear_count=2, on_clear="reuse").token == token_of(store, clear_count=1, on_clear="reuse").token


def test_a_token_that_may_be_reused_is_kept_as_long_as_the_run_and_others_as_long_as_airflow_likes():
    """Airflow forgets a task's state after 30 days; a run that is cleared later would commit a second time."""
    kept = {}

    class Watched(DictStore):
        def set(self, key, value, *, retention=None):
            kept[value["digest"]] = retention

    token_of(Watched(), digest="reused", on_clear="reuse")
    token_of(Watched(), digest="run again")
    assert kept == {"reused": NEVER_EXPIRE, "run again": None}


@pytest.mark.parametrize("on_clear", ["rerun", "reuse"])
def test_a_changed_statement_gets_a_new_token(on_clear):
    store = DictStore()
    assert token_of(store, on_clear=on_clear).token != token_of(store, on_clear=on_clear, digest="other").token


def test_what_upstream_keeps_belongs_to_one_token():
    store = DictStore()
    first, second = TokenScopedStore(store, "a"), TokenScopedStore(store, "b")
    first.set("spark_job_id", "application_1")
    assert (first.get("spark_job_id"), second.get("spark_job_id"), second.get("x", 1)) == ("application_1", None, 1)
    first.delete("spark_job_id")
    assert store == {}
