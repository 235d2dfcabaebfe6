"""The OpenLineage events of a real DAG run, and of each kind of outcome."""

import json
import sys
from types import ModuleType

import pytest
from airflow.providers.openlineage import conf as openlineage_conf
from airflow.providers.openlineage.plugins.listener import OpenLineageListener

from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.observe.lineage import lineage_of_outcome, lineage_of_plan
from airflow_delta.operators import DeltaMergeOperator
from tests.airflow_versions import get_listener_manager

SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {"comment": "the key"}},
        {"name": "at", "type": {"type": "struct", "fields": [{"name": "lat", "type": "double"}]}, "metadata": {}},
        {"name": "tags", "type": {"type": "array", "elementType": "string"}, "metadata": {}},
    ],
}

MERGED = f"""
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.result import ResultDocument, write_result
outcome = OperationResult(
    table=spec["statement"]["table"], version=4, read_version=3, operation="MERGE", committed=True,
    metrics={{"numTargetRowsInserted": 5, "numTargetRowsUpdated": 1, "numTargetFilesAdded": 2, "numTargetBytesAdded": 900}},
    sources=({{"table": "s3a://lake/feed", "version": 17}},),
)
write_result(spec["result_uri"], ResultDocument(outcome=outcome, schema_string={json.dumps(SCHEMA)!r}))
sys.exit(0)
"""


def clear_caches(module: ModuleType):
    for function in vars(module).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


@pytest.fixture
def events(tmp_path, monkeypatch):
    """Send OpenLineage's events to a file; the fixture reads those of a task."""
    manager = get_listener_manager()  # loads the plugins, OpenLineage's among them, which has nowhere to send anything yet
    log = tmp_path / "events.json"
    transport = {"type": "file", "log_file_path": str(log), "append": True}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__NAMESPACE", "airflow-delta-tests")
    clear_caches(openlineage_conf)
    listener = OpenLineageListener()
    manager.add_listener(listener)
    yield lambda task: [
        event for event in map(json.loads, log.read_text().splitlines()) if event["job"]["name"].endswith(f".{task}")
    ]
    manager.pm.unregister(listener)
    clear_caches(openlineage_conf)


def test_a_lineage_backend_gets_versions_and_statistics(events, empty_table, recording_submit, run_task):
    submit = recording_submit(MERGED)
    run = run_task(
        lambda: DeltaMergeOperator(
            task_id="merge",
            table=str(empty_table),
            source="s3a://lake/feed",
            on="target.id = source.id",
            conn_id="spark_local",
            spark_binary=str(submit.path),
            openlineage_inject_parent_job_info=True,
        )
    )
    assert run.state == "success"
    start, complete = events("merge")
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert [(output["namespace"], output["name"]) for output in start["outputs"]] == [("file", str(empty_table))]
    (read,) = complete["inputs"]
    assert (read["namespace"], read["name"]) == ("s3://lake", "feed")
    assert read["facets"]["version"]["datasetVersion"] == "17"
    (written,) = complete["outputs"]
    assert (written["namespace"], written["name"]) == ("file", str(empty_table))
    assert written["facets"]["version"]["datasetVersion"] == "4"
    assert written["facets"]["storage"]["storageLayer"] == "delta"
    statistics = written["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["fileCount"], statistics["size"]) == (6, 2, 900)
    identifier, place, tags = written["facets"]["schema"]["fields"]
    assert (identifier["name"], identifier["type"], identifier["description"]) == ("id", "long", "the key")
    assert (place["type"], [field["name"] for field in place["fields"]], tags["type"]) == ("struct", ["lat"], "array")
    (call,) = submit.calls
    assert any(argument.startswith("spark.openlineage.parentJobName=") for argument in call["argv"])


def outcome(**arguments):
    defaults = {"table": "gs://lake/t", "version": 4, "read_version": 3, "operation": "WRITE", "committed": True}
    return ResultDocument(outcome=OperationResult(**(defaults | arguments)))


def test_a_table_in_which_nothing_was_committed_counts_as_read():
    lineage = lineage_of_outcome(outcome(committed=False, sources=({"table": "gs://lake/t", "version": 4},)))
    assert lineage.outputs == []
    (read,) = lineage.inputs
    assert (read.namespace, read.name, read.facets["version"].datasetVersion) == ("gs://lake", "t", "4")


def described(lineage):
    """Name and version of what was read, and of what was written with its number of rows."""
    read = [(dataset.name, dataset.facets["version"].datasetVersion) for dataset in lineage.inputs]
    written = [
        (dataset.name, dataset.facets["version"].datasetVersion, dataset.outputFacets["outputStatistics"].rowCount)
        for dataset in lineage.outputs
    ]
    return read, written


def test_each_of_several_statements_reports_its_own_table_and_what_it_read():
    def part(table, version, **given):
        return outcome(table=f"gs://lake/{table}", version=version, **given).outcome.to_json()

    statements = {
        "plausible": part("feed", 7, committed=False, operation="EXPECT"),
        "silver": part("silver", 3, sources=({"table": "gs://lake/feed", "version": 7},), metrics={"numOutputRows": "5"}),
        "gold": part("gold", 9, sources=({"table": "gs://lake/rates", "version": 2},), metrics={"numOutputRows": 2}),
        "more": part("silver", 4, metrics={"numOutputRows": 1}),
        "checkpoint": part("silver", 4, committed=False, operation="CHECKPOINT"),
    }
    lineage = lineage_of_outcome(outcome(table="gs://lake/feed", operation="SEQUENCE", details={"statements": statements}))
    assert described(lineage) == ([("feed", "7"), ("rates", "2")], [("silver", "4", 6), ("gold", "9", 2)])


def test_publishing_reports_the_commit_to_each_table_and_pinning_each_table_as_read():
    entries = [{"table": f"gs://lake/{name}", "version": 4, "published": name != "same"} for name in ("a", "same", "b")]
    published = outcome(table="gs://lake/a", operation="PUBLISH", details={"published": entries})
    assert described(lineage_of_outcome(published)) == ([("same", "4")], [("a", "4", None), ("b", "4", None)])
    pins = [{"table": "gs://lake/a", "version": 4}, "a pin", {"table": "gs://lake/b", "version": 8}]
    pinned = outcome(table="gs://lake/a", operation="PIN", committed=False, details={"pins": pins})
    assert described(lineage_of_outcome(pinned)) == ([("a", "4"), ("b", "8")], [])


def test_what_openlineage_has_no_name_for_is_left_out():
    lineage = lineage_of_outcome(outcome(table="memory://t", sources=({"table": "memory://u", "version": 1},)))
    assert (lineage.inputs, lineage.outputs) == ([], [])


@pytest.mark.parametrize(("table", "outputs"), [("flights", []), ("s3://lake/flights", [("s3://lake", "flights")])])
def test_before_the_work_the_table_is_known_by_its_uri_alone(table, outputs):
    assert [(output.namespace, output.name) for output in lineage_of_plan(table).outputs] == outputs


def test_a_failed_task_has_written_nothing(monkeypatch):
    operator = DeltaMergeOperator(task_id="merge", table="s3://lake/t", source="s3://lake/feed", on="a = b")
    (planned,) = operator.get_openlineage_facets_on_failure(None).outputs
    assert "version" not in planned.facets
    assert operator.get_openlineage_facets_on_complete(None) == operator.get_openlineage_facets_on_start()
    monkeypatch.setitem(sys.modules, "airflow_delta.observe.lineage", None)
    with pytest.raises(ImportError):
        operator.get_openlineage_facets_on_start()


@pytest.mark.parametrize(
    "schema",
    ["[", "7", '{"fields": 7}', '{"fields": [{"name": "\\ud800"}]}', '{"fields": [' * 5_000, '{"fields": ' + "9" * 5_000 + "}"],
    ids=range(6),
)
def test_an_absurd_document_costs_the_lineage_its_absurd_parts_only(schema):
    result = outcome(
        metrics={"numOutputRows": "9" * 5_000, "numFiles": -5}, sources=({"table": 7}, {"version": "x"}, {})
    ).outcome
    lineage = lineage_of_outcome(ResultDocument(outcome=result, schema_string=schema))
    (output,) = lineage.outputs
    assert (lineage.inputs, output.facets.keys()) == ([], {"version", "storage"})
    statistics = output.outputFacets["outputStatistics"]
    assert (statistics.rowCount, statistics.fileCount) == (None, None)


def test_a_schema_of_odd_names_can_be_sent():
    schema = json.dumps({"fields": [{"name": "\ud800\x00", "type": "long", "metadata": {"comment": "\ud800"}}]})
    lineage = lineage_of_outcome(ResultDocument(outcome=outcome().outcome, schema_string=schema))
    (field,) = lineage.outputs[0].facets["schema"].fields
    assert (field.name, field.description) == (r"\ud800\x00", r"\ud800")
