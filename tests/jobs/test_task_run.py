"""A task without a random token: its token is derived from its ids."""

import json
import os

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import Origin
from airflow_delta.core.committed import version_before
from airflow_delta.core.statements import HealthStatement
from airflow_delta.jobs.errors import InvalidSpecError
from airflow_delta.jobs.run import run
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.jobs.task_run import TaskRun

RUN = {"dag_id": "d", "task_id": "t", "run_id": "r", "map_index": "-1", "generation": "0", "try_number": "1"}
DAY = 24 * 3_600_000


def spec_of(table="/lake/t", **run):
    document = {
        "statement": {"$type": "optimize", "table": table},
        "run": RUN | run,
        "scratch_uri": "/scratch/",
        "digest": None,
    }
    return JobSpec.from_text(json.dumps(document))


def test_tries_share_a_token_and_a_folder_but_not_a_document():
    first, second = spec_of(), spec_of(try_number="2")
    assert first.origin.token == second.origin.token
    assert first.result_uri.rsplit("/", 1)[0] == second.result_uri.rsplit("/", 1)[0]
    assert (first.result_uri.endswith("/1.json"), second.result_uri.endswith("/2.json")) == (True, True)
    assert first.result_uri.startswith("/scratch/_airflow_delta/results/")


@pytest.mark.parametrize("change", [{"generation": "3"}, {"map_index": "1"}, {"run_id": "s"}, {"dag_id": "d2"}])
def test_another_run_or_a_cleared_task_has_a_token_and_a_folder_of_its_own(change):
    one, other = spec_of(), spec_of(**change)
    assert one.origin.token != other.origin.token
    assert one.result_uri != other.result_uri


def test_another_statement_has_another_token_in_the_same_folder():
    one, other = spec_of(), spec_of(table="/lake/u")
    assert one.origin.token != other.origin.token
    assert one.result_uri == other.result_uri


def test_a_time_may_come_as_a_float_and_a_missing_date_as_nothing():
    spec = spec_of(run_after="1767225600000.0", logical_date="")
    assert (spec.earliest_commit_time, spec.origin.record["logical_date"]) == (1_767_225_600_000, None)


@pytest.mark.parametrize(
    "change", [{"generation": "{{ ti.max_tries }}"}, {"moon": "full"}, {"clear_count": "1"}, {"try_number": "1e999"}]
)
def test_an_invalid_run_is_an_error(change):
    with pytest.raises(InvalidSpecError, match="run"):
        spec_of(**change)


@pytest.mark.parametrize("member", ["generation", "dag_id"])
def test_a_missing_member_of_a_run_is_named(member):
    with pytest.raises(InvalidSpecError, match=f"invalid run: .*'{member}'"):
        TaskRun.from_json({name: value for name, value in RUN.items() if name != member})


def test_a_search_begins_a_day_before_the_run_and_earlier_where_the_log_does_not_reach(tmp_path):
    for number in range(3):
        write_deltalake(str(tmp_path), pa.table({"id": [number]}), mode="append")
        moment = number * 10 * DAY / 1_000
        os.utime(tmp_path / "_delta_log" / f"{number:020d}.json", (moment, moment))
    log = DeltaLog.for_table(str(tmp_path))
    assert [version_before(log, int(day * DAY)) for day in (0.5, 1, 10.9, 11.1, 21.5, 40)] == [-1, 0, 0, 1, 2, 2]
    assert version_before(DeltaLog.for_table(str(tmp_path / "none")), DAY) == -1
    log.checkpoint(1)
    (tmp_path / "_delta_log" / f"{0:020d}.json").unlink()
    assert version_before(DeltaLog.for_table(str(tmp_path)), DAY // 2) is None


def test_the_health_of_a_table_that_does_not_open_is_checked_without_a_start_version(tmp_path):
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{0:020d}.json").write_text("{")
    document = run(
        None, JobSpec(statement=HealthStatement(table=str(tmp_path)), origin=Origin(token="t"), earliest_commit_time=1)
    )
    assert document.error is None
    assert document.outcome.details["findings"][0]["severity"] == "error"
