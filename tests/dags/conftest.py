"""What the tests of the example DAGs have in common."""

from operator import attrgetter

import pytest
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session


@pytest.fixture
def mapped_xcoms(airflow_database):
    """The return values of a mapped task, in the order of its map indexes."""

    def get(dag_run, task_id):
        with create_session() as session:
            query = XComModel.get_many(
                run_id=dag_run.run_id, dag_ids=dag_run.dag_id, task_ids=task_id, key="return_value"
            ).order_by(None)
            found = sorted(session.scalars(query).all(), key=attrgetter("map_index"))
            return [XComModel.deserialize_value(row) for row in found]

    return get
