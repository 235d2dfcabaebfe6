"""The operator that loads files, as a task: its driver and its worker are killed for real."""

import pytest
from deltalake import DeltaTable

from airflow_delta.operators import DeltaCopyIntoOperator
from tests.operators.test_exactly_once import Killer, commit_files

pytestmark = pytest.mark.slow  # its Spark jobs take half a minute and more


class LosesItsWorkerOnce(DeltaCopyIntoOperator):
    """The worker dies with the driver: in the first try no process is left to read the log."""

    def _submit(self, spec, target, private, token, context):
        failure = super()._submit(spec, target, private, token, context)
        if context["ti"].try_number == 1:
            raise RuntimeError("the worker is lost")
        return failure


def test_a_first_load_whose_driver_and_worker_die_at_its_commit_loads_each_file_once(tmp_path, run_task):
    folder, table = tmp_path / "incoming", tmp_path / "orders"
    folder.mkdir()
    (folder / "a.csv").write_text("order_id,price\n1,9.50\ntwo,3.00\n")
    (folder / "b.csv").write_text("order_id,price\n3,1.25\n")
    killer = Killer(table, lambda: any((table / "_airflow_delta" / "loaded").glob("*.parquet")))
    run = run_task(
        lambda: LosesItsWorkerOnce(
            task_id="bronze",
            table=str(table),
            path=str(folder),
            pattern="*.csv",
            format="csv",
            options={"header": "true"},
            schema="order_id BIGINT, price DECIMAL(10, 2)",
            rescued_column="_rescued",
            conn_id="spark_local",
        ),
        retries=1,
    )
    assert killer.killed is not None
    assert (run.state, run.version, len(commit_files(table))) == ("success", 0, 1)
    assert {name: int(run.result["metrics"][name]) for name in ("numSourceFiles", "numOutputRows", "numRescuedRows")} == {
        "numSourceFiles": 2,
        "numOutputRows": 3,
        "numRescuedRows": 1,
    }
    rows = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    assert sorted((str(row["order_id"]), str(row["price"]), row["_rescued"]) for row in rows) == [
        ("1", "9.50", None),
        ("3", "1.25", None),
        ("None", "3.00", "two,3.00"),
    ]
