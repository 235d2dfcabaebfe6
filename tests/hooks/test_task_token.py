"""A retry finds its token; a cleared task and a changed statement do not."""

from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_delta.core.actions import Origin
from airflow_delta.core.committed import version_before
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import TableNotFoundError
from airflow_delta.core.statements import CreateStatement, SequenceStatement
from airflow_delta.hooks.airflow_features import NEVER_EXPIRE
from airflow_delta.hooks.task_token import STATE_KEY, TokenScopedStore, derived_token, task_token
from airflow_delta.jobs.core_statements import execute_in_core
from airflow_delta.jobs.runner import Backend
from airflow_delta.jobs.spec import statement_digest


class DictStore(dict):
    def set(self, key, value, *, retention=None):
        self[key] = value

    def delete(self, key):
        self.pop(key, None)


def token_of(store, *, clear_count=1, digest="statement", on_clear="rerun", head=7, before_run=None, written=None):
    return task_token(
        store,
        clear_count=clear_count,
        digest=digest,
        on_clear=on_clear,
        head=lambda: head,
        version_before_run=lambda: before_run,
        written=(written or {}).get,
    )


def test_the_first_try_mints_a_token_and_stores_it_with_the_version_of_the_table():
    store = DictStore()
    token = token_of(store, written={7: 70})
    assert (token.is_new, token.start_version, len(token.token)) == (True, 7, 32)
    state = {"token": token.token, "start_version": 7, "start_written": 70, "digest": "statement", "generation": 1}
    assert store[STATE_KEY] == state


def test_a_retry_finds_the_token_and_the_version_of_then():
    store = DictStore()
    first, retry = token_of(store), token_of(store, head=9)
    assert (retry.token, retry.start_version, retry.is_new) == (first.token, 7, False)


def test_a_retry_on_a_table_that_was_made_anew_begins_before_the_run_and_stays_there():
    """The new table has not reached the version of then: a commit in it would be taken for an older one."""
    store = DictStore()
    first, anew = token_of(store, head=7), token_of(store, head=3, before_run=-1)
    assert (anew.token, anew.start_version, anew.is_new) == (first.token, -1, False)
    assert token_of(store, head=9, before_run=2).start_version == -1


def test_a_retry_on_a_table_that_was_made_anew_and_has_reached_the_version_of_then_begins_before_the_run_too():
    store = DictStore()
    first, anew = token_of(store, written={7: 70}), token_of(store, head=9, before_run=2, written={2: 80, 7: 85})
    assert (anew.token, anew.start_version, anew.is_new) == (first.token, 2, False)
    assert token_of(store, head=11, before_run=5, written={2: 80, 5: 82}).start_version == 2


@pytest.mark.parametrize("written", [{7: 70}, {}], ids=["the same commit", "a commit that was cleaned up"])
def test_a_retry_on_the_table_of_then_keeps_its_version(written):
    store = DictStore()
    token_of(store, written={7: 70})
    assert token_of(store, head=9, before_run=2, written=written).start_version == 7


def test_a_retry_finds_a_version_that_was_stored_without_its_time():
    store = DictStore()
    token_of(store)
    del store[STATE_KEY]["start_written"]
    assert token_of(store, head=9, before_run=2, written={7: 70}).start_version == 7


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


RUN_AFTER = datetime(2013, 1, 2, tzinfo=UTC)
STARTED = datetime(2013, 1, 2, 3, tzinfo=UTC)


def task_context(*, try_number=1, started=STARTED, **of_ti):
    named = {"dag_id": "daily", "task_id": "load", "run_id": "run", "map_index": -1, "max_tries": 2} | of_ti
    dag_run = SimpleNamespace(run_after=RUN_AFTER, start_date=started)
    return {"ti": SimpleNamespace(try_number=try_number, **named), "dag_run": dag_run}


def derived(*, digest="statement", on_clear="rerun", **of_run):
    context = task_context(**of_run)
    return derived_token(context, digest=digest, on_clear=on_clear, head=lambda: 7, version_before=lambda time: time)


def test_a_derived_token_is_the_same_in_each_try_and_the_first_one_searches_nothing():
    first, retry = derived(), derived(try_number=2)
    assert (first.start_version, first.is_new) == (7, True)
    assert (retry.token, retry.is_new) == (first.token, False)


@pytest.mark.parametrize(
    "other",
    [
        {"dag_id": "hourly"},
        {"task_id": "store"},
        {"run_id": "another"},
        {"map_index": 0},
        {"max_tries": 5},
        {"digest": "another statement"},
        {"started": datetime(2013, 1, 2, 4, tzinfo=UTC)},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_derived_token_is_another_one_for_whatever_is_to_run_again(other):
    assert derived(**other).token != derived().token


def test_with_reuse_a_derived_token_stays_when_the_task_is_cleared():
    cleared = derived(on_clear="reuse", max_tries=5, try_number=4, started=datetime(2014, 1, 1, tzinfo=UTC))
    assert cleared.token == derived(on_clear="reuse").token
    assert cleared.start_version == RUN_AFTER.timestamp() * 1_000


def test_a_retry_searches_from_where_no_try_can_have_committed_before():
    assert derived(try_number=2).start_version == STARTED.timestamp() * 1_000
    assert derived(try_number=2, started=None).start_version == RUN_AFTER.timestamp() * 1_000


class Tables:
    """Two tables, and a task that empties one after the other, as a sequence with a derived token."""

    def __init__(self, folder):
        self.started = datetime.now(tz=UTC)
        self.logs = {name: DeltaLog.for_table(str(folder / name)) for name in ("a", "b")}
        for log in self.logs.values():
            write_deltalake(log.table_uri, pa.table({"id": [1]}))
        statements = {
            name: CreateStatement(table=log.table_uri, columns={"id": "BIGINT"}, mode="replace")
            for name, log in self.logs.items()
        }
        self.statement = SequenceStatement(statements=tuple(statements.values()), names=tuple(statements))

    def run(self, *, fails_before=None, **of_ti):
        """Run a try of the task; the versions that the tables have then."""
        log = self.logs["a"]
        token = derived_token(
            task_context(started=self.started, **of_ti),
            digest=statement_digest(self.statement),
            on_clear="rerun",
            head=lambda: log.refresh().version,
            version_before=partial(version_before, log),
        )

        def execute(of_table, statement, origin, start_version):
            if origin.record["statement"] == fails_before:
                raise TableNotFoundError(table=statement.table)
            return execute_in_core(of_table, statement, origin=origin, start_version=start_version)

        backend = Backend(execute=execute, earliest_commit_time=round(1_000 * self.started.timestamp()))
        with suppress(TableNotFoundError):
            origin = Origin(token=token.token, record={})
            execute_in_core(log, self.statement, origin=origin, start_version=token.start_version, backend=backend)
        return tuple(log.refresh().version for log in self.logs.values())


def test_a_sequence_with_a_derived_token_goes_on_behind_its_last_commit_and_runs_again_only_for_another_task_run(tmp_path):
    tables = Tables(tmp_path)
    assert tables.run(fails_before="b") == (1, 0)
    assert tables.run(try_number=2) == (1, 1)
    assert tables.run(try_number=3) == (1, 1)  # whose result was lost
    assert tables.run(try_number=4, max_tries=5) == (2, 2)  # cleared
    assert tables.run(run_id="next") == (3, 3)
