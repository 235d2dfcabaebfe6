"""What a result document reports of the table, whichever process did the work."""

import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import Origin
from airflow_delta.core.log.version_checksum import VersionChecksum
from airflow_delta.core.operations.table_health.inspected_table import SMALL_FILE
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.jobs.table_stats import HISTORY, attach_table_stats

OUTCOME = OperationResult(table="t", version=1, read_version=0, operation="MERGE", committed=True)


@pytest.fixture
def table(tmp_path):
    """Twelve versions of one small file each, written by another engine, and one last commit of ours."""
    for number in range(12):
        write_deltalake(str(tmp_path), pa.table({"id": [number]}), mode="append")
    log = DeltaLog.for_table(str(tmp_path))
    origin = Origin(token="0" * 32, job={"jobName": "d.t"}, record={"dag_id": "d"})
    log.alter(origin=origin).set_properties({"delta.appendOnly": "false"})
    return tmp_path


def test_a_document_has_the_last_commits_and_the_size_of_the_table(table):
    log = DeltaLog.for_table(str(table))
    document = attach_table_stats(ResultDocument(outcome=OUTCOME, duration_ms=7), log)
    size = sum(path.stat().st_size for path in table.glob("*.parquet"))
    assert document.table_facts == {"version": 12, "files": 12, "bytes": size, "small_files": 12}
    assert [entry["version"] for entry in document.history] == list(range(12, 12 - HISTORY, -1))
    last, before = document.history[:2]
    assert (last["operation"], last["job"], last["airflowDelta"]) == ("SET TBLPROPERTIES", {"jobName": "d.t"}, {"dag_id": "d"})
    assert (before["operation"], before["airflowDelta"]) == ("WRITE", {})
    assert last["timestamp"] > before["timestamp"] > 1_700_000_000_000
    assert ResultDocument.from_text(document.to_text()) == document


@pytest.mark.parametrize(
    ("histogram", "small"),
    [
        ({"sortedBinBoundaries": [0, 1 << 20, 16 << 20], "fileCounts": [2, 1, 9], "totalBytes": [1, 1, 1]}, 3),
        ({"sortedBinBoundaries": [0, 32 << 20], "fileCounts": [3, 9], "totalBytes": [1, 1]}, 12),
        (None, 12),
    ],
    ids=["taken from the histogram", "no bin begins there", "no histogram"],
)
def test_small_files_come_from_the_checksum_where_it_counts_them(table, histogram, small):
    snapshot = DeltaLog.for_table(str(table)).snapshot()
    checksum = VersionChecksum(
        table_size=100, num_files=12, protocol=snapshot.protocol, metadata=snapshot.metadata, histogram=histogram
    )
    (table / "_delta_log" / f"{12:020d}.crc").write_text(json.dumps(checksum.to_json()))
    facts = attach_table_stats(ResultDocument(outcome=OUTCOME), DeltaLog.for_table(str(table))).table_facts
    assert (facts["files"], facts["small_files"]) == (12, small)


def test_what_cannot_be_observed_is_left_out(tmp_path):
    document = ResultDocument(outcome=OUTCOME)
    assert attach_table_stats(document, DeltaLog.for_table(str(tmp_path / "none"))) == document


@pytest.mark.parametrize(
    ("files", "counts"),
    [
        (12, ["many", "few"]),
        (12, ["6", "6"]),
        (12, [-5, 17]),
        (12, [1.5, 10.5]),
        (12, [float("nan"), 12]),
        (12, [None, 12]),
        (12, [12]),
        (12, {"0": 12}),
        (12, [13, 12]),
        (-12, [-12, 0]),
        (12, [(1 << 70), 12 - (1 << 70)]),
    ],
    ids=str,
)
def test_figures_of_a_checksum_that_cannot_be_so_are_counted_instead(table, files, counts):
    snapshot = DeltaLog.for_table(str(table)).snapshot()
    histogram = {"sortedBinBoundaries": [0, SMALL_FILE], "fileCounts": counts, "totalBytes": [1, 1]}
    checksum = VersionChecksum(
        table_size=100, num_files=files, protocol=snapshot.protocol, metadata=snapshot.metadata, histogram=histogram
    )
    (table / "_delta_log" / f"{12:020d}.crc").write_text(json.dumps(checksum.to_json()))
    document = attach_table_stats(ResultDocument(outcome=OUTCOME), DeltaLog.for_table(str(table)))
    size = sum(path.stat().st_size for path in table.glob("*.parquet"))
    assert document.table_facts == {"version": 12, "files": 12, "bytes": size, "small_files": 12}
    assert document.outcome == OUTCOME


def test_whatever_fails_behind_the_commit_is_a_warning(table):
    (table / "_delta_log" / f"{5:020d}.json").write_bytes(b'{"commitInfo":{"operation":"\xff"}}')
    document = attach_table_stats(ResultDocument(outcome=OUTCOME), DeltaLog.for_table(str(table)))
    assert document.outcome.version == 1
    assert document.outcome.warnings[0].startswith("reading the table after the work failed: ")
