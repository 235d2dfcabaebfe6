"""Shared by the tests of the example DAGs."""

from operator import attrgetter

import pytest

from tests.airflow_versions import xcoms


@pytest.fixture
def mapped_xcoms(airflow_database):
    """The return values of a mapped task, in the order of its map indexes."""

    def get(dag_run, task_id):
        wanted = {"run_id": dag_run.run_id, "dag_ids": dag_run.dag_id, "task_ids": task_id, "key": "return_value"}
        return xcoms(**wanted, order_by=attrgetter("map_index"))

    return get
