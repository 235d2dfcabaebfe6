"""The operator that finds tables, for ``.expand``."""

import json

import pytest

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.operators import DeltaTablesOperator
from tests.airflow_versions import operator_log

COMMIT = "_delta_log/00000000000000000000.json"


def test_it_returns_uris_that_other_operators_take(tmp_path, monkeypatch):
    for name in ("silver/b", "silver/a"):
        LocalLogStore(str(tmp_path)).write(f"{name}/{COMMIT}", b"{}")
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "delta", "host": str(tmp_path)}))
    operator = DeltaTablesOperator(task_id="tables", root="silver", delta_conn_id="lake")
    assert operator.execute({}) == [f"{tmp_path}/silver/a", f"{tmp_path}/silver/b"]
    assert DeltaTablesOperator(task_id="none", root=f"{tmp_path}/gold").execute({}) == []


@pytest.mark.parametrize("root", [".", "./", "{root}/.", "{root}/./"])
def test_a_root_with_a_dot_gives_the_uris_by_which_other_tasks_know_the_tables(tmp_path, monkeypatch, root):
    LocalLogStore(str(tmp_path)).write(f"feed/{COMMIT}", b"{}")
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "delta", "host": str(tmp_path)}))
    operator = DeltaTablesOperator(task_id="tables", root=root.format(root=tmp_path), delta_conn_id="lake")
    assert operator.execute({}) == [f"{tmp_path}/feed"]


def test_a_folder_without_tables_is_a_warning_as_its_mapped_tasks_are_skipped(tmp_path):
    with operator_log() as logged:
        assert DeltaTablesOperator(task_id="tables", root=f"{tmp_path}/slver", pattern="s*").execute({}) == []
    [(level, text)] = [line for line in logged if line[1].startswith("Found")]
    found_none = f"Found no tables below {tmp_path}/slver (pattern='s*', max_depth=3)"
    assert (level, text.split(":")[0]) == ("warning", found_none)


@pytest.mark.parametrize("wrong", [{"root": " "}, {"max_depth": -1}, {"max_depth": "deep"}, {"pattern": ["*"]}])
def test_arguments_that_mean_nothing_are_refused_when_the_dag_is_parsed(wrong):
    with pytest.raises(InvalidStatementError):
        DeltaTablesOperator(task_id="tables", **{"root": "/lake", **wrong})
