"""A statement that cannot be done ends as one typed error of its task, through a real Spark job."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.errors import ExpectationFailedError, SchemaMismatchError
from airflow_delta.operators import DeltaMergeOperator, DeltaSqlOperator
from tests.airflow_versions import plain


@pytest.mark.slow
def test_a_source_without_a_column_and_a_failed_expectation_are_reported_and_change_nothing(tmp_path, run_task, capfd):
    table, feed = tmp_path / "table", tmp_path / "feed"
    write_deltalake(str(table), pa.table({"id": [1, 2], "delay": [10, 20]}))
    write_deltalake(str(feed), pa.table({"id": [2, 3]}))
    data_files = {path.name for path in tmp_path.rglob("*.parquet")}

    def gated(merge):
        DeltaSqlOperator(
            task_id="gated",
            table=str(tmp_path / "new"),
            query="SELECT id, -1 AS flights FROM feed",
            views={"feed": str(feed)},
            expect="flights >= 0",
            conn_id="spark_local",
        )

    run = run_task(
        lambda: DeltaMergeOperator(
            task_id="merge", table=str(table), source=str(feed), on="target.id = source.id", conn_id="spark_local"
        ),
        retries=1,
        more=gated,
    )
    mismatch, failed = sorted(run.errors, key=lambda error: type(error).__name__, reverse=True)
    assert isinstance(mismatch, SchemaMismatchError)
    assert (mismatch.table, "delay" in mismatch.differences[0]) == (str(table), True)
    assert isinstance(failed, ExpectationFailedError)
    assert (failed.expectation, failed.rows) == ("flights >= 0", 2)
    log = plain(capfd.readouterr().out)
    assert "[DELTA_SCHEMA_MISMATCH]" in log
    assert "Remedy: correct the source or the expectation; the statement has committed nothing" in log
    assert DeltaTable(str(table)).version() == 0
    assert {path.name for path in tmp_path.rglob("*.parquet")} == data_files
    assert not (tmp_path / "new").exists()
