"""The DAG files of the slow tests keep pace with the operators."""

from tests.airflow_versions import BundleDagBag
from tests.standalone.airflow_home import DAG_FILES


def test_airflow_reads_the_dag_files_of_the_slow_tests(monkeypatch, tmp_path):
    monkeypatch.setenv("TABLES", str(tmp_path))
    bag = BundleDagBag(dag_folder=str(DAG_FILES), bundle_path=DAG_FILES, bundle_name="dags")
    assert bag.import_errors == {}
    assert set(bag.dags) == {"appended", "by_spark", "by_worker", "month", "waiting", "watched"}
