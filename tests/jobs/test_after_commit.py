"""The result of every committing statement reports the post-commit work, whatever went wrong there."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import Origin
from airflow_delta.core.operations import after_commit
from airflow_delta.core.statements import (
    AlterStatement,
    CloneStatement,
    ConvertStatement,
    CreateStatement,
    RestoreStatement,
    SetProperties,
    StatisticsStatement,
    TableSource,
)
from airflow_delta.jobs.core_statements import execute_in_core

ROWS = pa.table({"id": [1, 2, 3]})
STATEMENTS = {
    "create": lambda new, old: CreateStatement(table=new, columns="id BIGINT"),
    "alter": lambda new, old: AlterStatement(table=old, changes=[SetProperties({"color": "red"})]),
    "restore": lambda new, old: RestoreStatement(table=old, version=0),
    "clone": lambda new, old: CloneStatement(table=new, source=TableSource(old)),
    "convert": lambda new, old: ConvertStatement(table=new),
    "statistics": lambda new, old: StatisticsStatement(table=old),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_work_behind_the_commit_is_told_and_what_fails_there_is_a_warning(tmp_path, monkeypatch, name):
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    write_deltalake(old, ROWS)
    configuration = {"delta.dataSkippingNumIndexedCols": "0"}
    write_deltalake(old, ROWS, mode="append")
    DeltaLog.for_table(old).alter().set_properties(configuration if name == "statistics" else {"owner": "us"})
    if name == "convert":
        (tmp_path / "new").mkdir()
        pq.write_table(ROWS, tmp_path / "new" / "part.parquet")
    monkeypatch.setattr(after_commit.AfterCommit, "_convert_to_iceberg", lambda *_: {"iceberg": {"version": 7}})
    monkeypatch.setattr(after_commit.AfterCommit, "_write_checksum", lambda *_: (_ for _ in ()).throw(OSError("full")))
    statement = STATEMENTS[name](new, old)
    result = execute_in_core(DeltaLog.for_table(statement.table), statement, origin=Origin())
    assert result.committed
    assert result.details["iceberg"] == {"version": 7}
    assert [warning.endswith("failed: OSError: full") for warning in result.warnings] == [True]
