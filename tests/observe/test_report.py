"""What a task reports for the pages, and that it stays small."""

import json

from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.observe.report import MAX_REPORT_BYTES, table_id, table_reports

RUN = {"dag_id": "hourly", "task_id": "fix", "run_id": "r1", "map_index": -1}
CONFLICT = {
    "version": 6,
    "operation": "UPDATE",
    "rule": "DELTA_CONCURRENT_APPEND",
    "job": {"jobId": "x"},
    "run": RUN,
    "lost_ms": 900,
}


def result(table="s3://lake/t", **arguments):
    fields = {"version": 7, "read_version": 6, "operation": "MERGE", "committed": True}
    return OperationResult(table=table, **{**fields, **arguments})


def reports(outcome, **arguments):
    return table_reports(ResultDocument(outcome=outcome, **arguments))["reports"]


def test_a_commit_is_reported_with_the_table_behind_it():
    head = {"version": 7, "timestamp": 5, "operation": "MERGE", "airflowDelta": RUN | {"sources": ["much"]}}
    outcome = result(
        metrics={"numTargetRowsInserted": 3, "numTargetFilesAdded": 2, "numTargetBytesAdded": 90},
        conflicts=(CONFLICT,),
        attempts=2,
    )
    [report] = reports(
        outcome,
        history=(head,),
        table_facts={"version": 7, "files": 9, "bytes": 900, "small_files": 1},
        table_detail={"rows": 40, "maintenance": [{"step": "optimize", "due": True}, {"step": "checkpoint", "due": False}]},
        duration_ms=1_200,
    )
    assert report == {
        "id": table_id("s3://lake/t"),
        "table": "s3://lake/t",
        "version": 7,
        "operation": "MERGE",
        "committed": True,
        "attempts": 2,
        "rows": 3,
        "files": 2,
        "bytes": 90,
        "conflicts": [{"version": 6, "operation": "UPDATE", "rule": "DELTA_CONCURRENT_APPEND", "lost_ms": 900, "run": RUN}],
        "facts": {"version": 7, "files": 9, "bytes": 900, "small_files": 1, "rows": 40},
        "duration_ms": 1_200,
        "head": {"version": 7, "timestamp": 5, "operation": "MERGE", "run": RUN},
        "due": ["optimize"],
    }


def test_findings_of_a_health_check_are_counted():
    findings = [{"severity": "hint"}, {"severity": "error"}, {"severity": "hint"}]
    [report] = reports(result(operation="HEALTH", committed=False, details={"findings": findings}))
    assert (report["findings"], "rows" in report) == ({"hint": 2, "error": 1}, False)


def test_each_statement_of_a_sequence_is_reported_and_the_last_of_the_table_has_its_size():
    parts = {
        "one": result(version=7),
        "two": result(version=8, operation="OPTIMIZE"),
        "other": result(table="s3://lake/u", version=1),
    }
    details = {"statements": {name: part.to_json() for name, part in parts.items()}}
    found = reports(result(operation="SEQUENCE", version=8, details=details), table_facts={"version": 8, "files": 1})
    assert [(report["table"], report["version"], "facts" in report) for report in found] == [
        ("s3://lake/t", 7, False),
        ("s3://lake/t", 8, True),
        ("s3://lake/u", 1, False),
    ]


def test_a_report_stays_small_and_keeps_what_is_newest():
    long = dict.fromkeys(RUN, "x" * 5_000)
    [report] = reports(result(conflicts=({**CONFLICT, "run": long},) * 100))
    assert 1 <= len(report["conflicts"]) <= 2
    parts = {str(number): result(version=number, conflicts=(CONFLICT,) * 9).to_json() for number in range(100)}
    found = reports(result(operation="SEQUENCE", details={"statements": parts}))
    assert found[-1]["version"] == 99
    assert len(json.dumps({"reports": found})) <= MAX_REPORT_BYTES + 50


def test_of_conflicts_that_do_not_fit_the_newest_are_reported():
    met = tuple({"version": version, "operation": "x" * 900, "rule": "r"} for version in range(20))
    (found,) = reports(result(conflicts=met))
    assert [conflict["version"] for conflict in found["conflicts"]] == [15, 16, 17, 18, 19]


def test_a_table_of_which_nothing_was_published_is_reported_without_a_commit():
    is_published = {"a": False, "b": True, "c": False}
    entries = [{"table": name, "version": 3, "published": published} for name, published in is_published.items()]
    found = reports(result(table="a", operation="PUBLISH", details={"published": entries}))
    assert {report["table"]: report["committed"] for report in found} == is_published


def test_each_table_that_was_published_is_reported():
    entries = [{"table": f"s3://lake/{name}", "version": number, "published": True} for number, name in ((3, "a"), (8, "b"))]
    outcome = result(
        table="s3://lake/a", version=3, operation="PUBLISH", conflicts=(CONFLICT,), attempts=2, details={"published": entries}
    )
    found = [
        (entry["table"], entry["version"], entry["operation"], len(entry.get("conflicts", []))) for entry in reports(outcome)
    ]
    assert found == [("s3://lake/a", 3, "PUBLISH", 1), ("s3://lake/b", 8, "PUBLISH", 0)]
