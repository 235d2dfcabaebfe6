"""Which commits are meant, and how many rows they changed."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_delta.core.errors import InvalidPredicateError, InvalidStatementError
from airflow_delta.core.log.commit_reader import read_commit, read_metadata
from airflow_delta.watch.commit_filter import CommitFilter
from airflow_delta.watch.commit_match import fulfills, rows_changed
from airflow_delta.watch.commit_scan import CommitScan
from tests.core.builders import add, metadata, remove
from tests.watched_table import WatchedTable

RUN = {"dag_id": "daily", "task_id": "silver", "run_id": "r1", "map_index": -1, "logical_date": "2013-01-01T00:00:00+00:00"}


@pytest.fixture
def table(tmp_path):
    table = WatchedTable(tmp_path / "table")
    table.create()
    return table


def matches(table, version, **wanted):
    wanted = CommitFilter.of(**wanted)
    return fulfills(read_commit(table.store, version), wanted, read_metadata(table.store, 0), "t")


@pytest.mark.parametrize(
    ("commit", "wanted", "is_match"),
    [
        ("write", {}, True),
        ("write", {"operations": "write"}, True),
        ("write", {"operations": ["MERGE", "Write"]}, True),
        ("write", {"operations": ("MERGE",)}, False),
        ("optimize", {"data_change_only": True}, False),
        ("optimize", {"operations": "OPTIMIZE"}, True),
        ("create", {"data_change_only": True}, False),
        ("delete", {"data_change_only": True}, True),
        ("write", {"partitions": "day = DATE'2013-01-01'"}, True),
        ("delete", {"partitions": "day = DATE'2013-01-01'"}, True),
        ("write", {"partitions": "day > DATE'2013-01-01'"}, False),
        ("optimize", {"partitions": "day = DATE'2013-01-01'"}, True),
        ("optimize", {"partitions": "day = DATE'2013-01-01'", "data_change_only": True}, False),
        ("write", {"partitions": "day = DATE'2013-01-01'", "operations": "MERGE"}, False),
    ],
)
def test_every_condition_that_is_given_must_hold(table, commit, wanted, is_match):
    assert matches(table, getattr(table, commit)(), **wanted) is is_match


def test_a_removed_file_without_partition_values_may_be_in_any_partition(table):
    version = table.commit("DELETE", remove("x"))
    assert matches(table, version, partitions="day = DATE'2013-01-01'")


def test_partitions_are_found_by_name_where_a_schema_without_mapping_has_a_physical_name(table):
    version = table.write(day="2013-01-01")
    found = read_metadata(table.store, 0)
    schema = json.loads(found.schema_string)
    schema["fields"][0]["metadata"] = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-old"}
    left_over = replace(found, schema_string=json.dumps(schema))
    commit = read_commit(table.store, version)
    wanted = [CommitFilter.of(partitions=f"day = DATE'2013-01-{day}'") for day in ("01", "02")]
    assert [fulfills(commit, commit_filter, left_over, "t") for commit_filter in wanted] == [True, False]


@pytest.mark.parametrize(
    ("run", "is_match"),
    [
        ({"dag_id": "daily", "run_id": "r1"}, True),
        ({"dag_id": "daily", "run_id": "r1", "map_index": "-1"}, True),
        ({"dag_id": "daily", "logical_date": "2013-01-01 01:00:00+01:00"}, True),
        ({"dag_id": "daily", "logical_date": datetime(2013, 1, 1, tzinfo=UTC)}, True),
        ({"dag_id": "daily", "task_id": "gold", "run_id": "r1"}, False),
        ({"dag_id": "daily", "run_id": "r2"}, False),
        ({"dag_id": "weekly", "run_id": "r1"}, False),
    ],
)
def test_a_run_is_known_by_the_record_in_its_commit(table, run, is_match):
    assert matches(table, table.write(run=RUN), run=run) is is_match
    assert not matches(table, table.write(), run=run)


@pytest.mark.parametrize(
    "run", [{"dag_id": "daily"}, {"run_id": "r1"}, {"dag_id": "d", "run_id": ""}, {"dag_id": "d", "run_id": "r", "try": 1}]
)
def test_half_a_run_is_refused(run):
    with pytest.raises(InvalidStatementError):
        CommitFilter.of(run=run)


@pytest.mark.parametrize(
    ("predicate", "error"),
    [("day = ", InvalidPredicateError), ("nope = 1", InvalidPredicateError), ("id = 1", InvalidStatementError)],
)
def test_a_predicate_must_be_about_partition_columns(table, predicate, error):
    with pytest.raises(error):
        matches(table, table.write(), partitions=predicate)


@pytest.mark.parametrize(
    ("operation", "metrics", "files", "rows"),
    [
        ("WRITE", {"numOutputRows": "7", "numFiles": "1"}, [], 7),
        ("MERGE", {"numOutputRows": "90", "numTargetRowsInserted": "2", "numTargetRowsUpdated": "3"}, [], 5),
        ("UPDATE", {"numUpdatedRows": "4", "numCopiedRows": "90"}, [], 4),
        ("DELETE", {"numDeletedRows": "6", "numCopiedRows": "90"}, [], 6),
        ("WRITE", {}, [add("x", stats='{"numRecords":3}'), add("y", stats='{"numRecords":4}')], 7),
        ("OPTIMIZE", {}, [add("x", stats='{"numRecords":3}', dataChange=False)], 0),
        ("WRITE", {}, [add("x")], 0),
        ("WRITE", {"numOutputRows": "9" * 5_000}, [add("x", stats='{"numRecords":3}')], 3),
        ("MERGE", {"numTargetRowsInserted": -5, "numTargetRowsUpdated": "2"}, [], 2),
    ],
)
def test_rows_are_those_that_changed(table, operation, metrics, files, rows):
    version = table.commit(operation, *files, metrics=metrics)
    assert rows_changed(read_commit(table.store, version)) == rows


def test_a_filter_travels_as_json():
    wanted = CommitFilter.of(operations="merge", partitions="p = 1", data_change_only=True, run={"dag_id": "d", "run_id": "r"})
    assert CommitFilter.of(**wanted.to_json()) == wanted


@pytest.mark.parametrize("map_index", ["x", "--1", "1.5"])
def test_a_map_index_that_is_no_number_is_refused(map_index):
    with pytest.raises(InvalidStatementError, match="map_index of a run must be a number"):
        CommitFilter.of(run={"dag_id": "daily", "run_id": "r1", "map_index": map_index})


def test_partitions_are_judged_by_the_columns_of_the_commit_also_behind_commits_that_were_skipped(table):
    table.write(day="2013-01-01")
    table.commit("CREATE OR REPLACE TABLE", metadata())
    last = table.commit("WRITE", add("x"))
    scan = CommitScan(table.store, CommitFilter.of(partitions="day = DATE'2013-01-01'"))
    assert [commit is not None for _, commit in scan.matches([1])] == [True]
    with pytest.raises(InvalidPredicateError, match="the column 'day' does not exist"):
        list(scan.matches([last]))
