"""The OPTIMIZE statement from the outside."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidPredicateError, MetadataChangedError, TableNotFoundError
from airflow_delta.core.statements import OptimizeStatement, SqlSource, WriteStatement
from airflow_delta.spark.optimize import partition_choice
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.write.write import write
from tests.slow_cases import slow_after
from tests.spark.interrupted_store import InterruptedStore


@pytest.fixture
def run_optimize(spark, table):
    def run(*, meanwhile=lambda: None, origin=None, start_version=None, **statement):
        log = DeltaLog.for_table(table, store=InterruptedStore(table, meanwhile))
        statement = OptimizeStatement(table=table, **statement)
        return optimize(spark, log, statement, origin=origin, start_version=start_version)

    return run


@pytest.fixture
def partitioned(table):
    """Three files in each of two partitions: ``id`` 0 to 5, even ones in ``a``."""
    for i in range(3):
        write_deltalake(table, pa.table({"id": [2 * i, 2 * i + 1], "p": ["a", "b"]}), partition_by=["p"], mode="append")


def live(table):
    files = DeltaLog.for_table(table).snapshot().files()
    return sorted(dict(values)["p"] for values in files["partition_values"].to_pylist())


def everything(table):
    return {str(path.relative_to(table)) for path in Path(table).rglob("*")}


def test_small_files_become_one_in_each_partition_and_no_row_changes(run_optimize, partitioned, reference_rows, table):
    result = run_optimize(origin=Origin(token="task"), start_version=2)

    assert (result.version, result.read_version, result.committed, result.operation) == (3, 2, True, "OPTIMIZE")
    assert (result.metrics["numRemovedFiles"], result.metrics["numAddedFiles"]) == (6, 2)
    assert result.metrics["minFileSize"] <= result.metrics["p50FileSize"] <= result.metrics["maxFileSize"]
    assert live(table) == ["a", "b"]
    assert reference_rows() == [(i, "ab"[i % 2]) for i in range(6)]
    actions = DeltaTable(table).get_add_actions(flatten=True)
    assert pa.table(actions).column("num_records").to_pylist() == [3, 3]
    history = DeltaTable(table).history(1)[0]
    assert (history["isolationLevel"], history["operationParameters"]["predicate"]) == ("SnapshotIsolation", "[]")
    again = run_optimize(origin=Origin(token="task"), start_version=2)
    assert (again.version, again.already_committed) == (3, True)


def test_nothing_to_do_commits_nothing(run_optimize, partitioned, table):
    before = everything(table)
    assert run_optimize(target_file_size=10).committed is False
    assert run_optimize(where="p = 'c'").committed is False
    planned = run_optimize(dry_run=True)
    assert (planned.committed, planned.metrics["numRemovedFiles"], planned.metrics["numAddedFiles"]) == (False, 6, 2)
    assert everything(table) == before


def test_only_the_asked_partitions_are_compacted(run_optimize, partitioned, table):
    result = run_optimize(where="p = 'a'")
    assert live(table) == ["a", "b", "b", "b"]
    assert DeltaTable(table).history(1)[0]["operationParameters"]["predicate"] == "[\"p = 'a'\"]"
    assert result.metrics["numRemovedFiles"] == 3
    with pytest.raises(InvalidPredicateError):
        run_optimize(where="id > 3")


@pytest.fixture
def days(spark, table):
    """Three files on each of three days, today the last one, for each of ``p`` a, b and NULL."""
    for number in range(3):
        source = f"""
            SELECT {number} AS id, current_date() - CAST(d.id AS INT) AS day,
                element_at(array('a', 'b', NULL), CAST(p.id AS INT)) AS p
            FROM range(3) AS d CROSS JOIN range(1, 4) AS p
        """
        statement = WriteStatement(table=table, source=SqlSource(source), partition_by=("day", "p"))
        write(spark, DeltaLog.for_table(table), statement)


@pytest.mark.parametrize(
    ("where", "partitions"),
    slow_after(
        4,
        [
            ("day >= current_date() - INTERVAL 1 DAY", 6),
            ("day > date_sub(current_date(), 1) AND p = 'a'", 1),
            ("date_format(day, 'yyyy') = '1999'", 0),
            ("day = current_date() AND upper(p) = 'B' OR day < current_date() AND coalesce(p, 'none') = 'none'", 3),
            ("upper(coalesce(p, 'a')) = 'A'", 6),
            ("target.day = current_date()", 3),
            ("current_date() > DATE'2020-01-01'", 9),
            ("current_date() < DATE'2020-01-01'", 0),
        ],
    ),
)
def test_a_condition_on_partitions_that_only_spark_can_decide_takes_those_for_which_it_holds(
    run_optimize, days, table, where, partitions
):
    planned = run_optimize(where=where, z_order_by=["id"], dry_run=True).metrics["numRemovedFiles"]
    result = run_optimize(where=where)

    assert (planned, result.metrics["numRemovedFiles"]) == (3 * partitions, 3 * partitions)
    assert len(DeltaLog.for_table(table).snapshot().files()) == 27 - 2 * partitions


def test_a_condition_that_spark_would_decide_for_too_many_partitions_is_refused(run_optimize, partitioned, monkeypatch):
    monkeypatch.setattr(partition_choice, "_MOST_PARTITIONS", 1)
    with pytest.raises(InvalidPredicateError, match="name them by constants"):
        run_optimize(where="upper(p) = 'A'")


def test_values_of_columns_that_the_condition_does_not_name_are_not_counted(run_optimize, days, monkeypatch):
    monkeypatch.setattr(partition_choice, "_MOST_PARTITIONS", 3)
    assert run_optimize(where="day <= current_date()").metrics["numRemovedFiles"] == 27


def test_a_condition_without_columns_decides_for_a_table_without_partitions(run_optimize, table):
    for number in range(3):
        write_deltalake(table, pa.table({"id": [number]}), mode="append")
    assert run_optimize(where="current_date() < DATE'2020-01-01'").metrics["numRemovedFiles"] == 0
    assert run_optimize(where="current_date() > DATE'2020-01-01'").metrics["numRemovedFiles"] == 3


def test_the_table_says_how_large_files_become(run_optimize, table):
    rows = pa.table({"id": range(1000)})
    write_deltalake(table + "-other", rows)
    size = DeltaTable(table + "-other").get_add_actions()["size_bytes"][0].as_py()
    for _ in range(4):
        write_deltalake(table, rows, mode="append", configuration={"delta.targetFileSize": f"{2 * size + 1}b"})
    result = run_optimize()
    assert (result.metrics["numRemovedFiles"], result.metrics["numAddedFiles"]) == (4, 2)


def test_an_append_meanwhile_costs_nothing(run_optimize, partitioned, reference_rows, table):
    more = pa.table({"id": [6], "p": ["a"]})
    result = run_optimize(meanwhile=lambda: write_deltalake(table, more, mode="append"))
    assert (result.version, result.read_version, [conflict["rule"] for conflict in result.conflicts]) == (4, 2, [None])
    assert live(table) == ["a", "a", "b"]
    assert len(reference_rows()) == 7


def test_a_delete_meanwhile_costs_only_the_bin_that_it_hit(run_optimize, partitioned, reference_rows, table):
    result = run_optimize(meanwhile=lambda: DeltaTable(table).delete("id = 2"))
    assert (result.version, result.read_version, result.attempts) == (4, 2, 2)
    assert (result.metrics["numRemovedFiles"], result.metrics["numAddedFiles"]) == (3, 1)
    assert live(table) == ["a", "a", "b"]
    assert [row[0] for row in reference_rows()] == [0, 1, 3, 4, 5]


def test_when_every_bin_is_hit_nothing_is_committed_nor_left(run_optimize, partitioned, reference_rows, table, tmp_path):
    result = run_optimize(meanwhile=lambda: DeltaTable(table).delete("id < 2"))
    assert (result.committed, result.version, len(result.conflicts)) == (False, 3, 1)
    assert [row[0] for row in reference_rows()] == [2, 3, 4, 5]
    assert list(tmp_path.glob("table/write-*")) == []


def test_another_schema_meanwhile_ends_it(run_optimize, partitioned, table, tmp_path):
    wider = pa.table({"id": [7], "p": ["a"], "more": ["x"]})
    with pytest.raises(MetadataChangedError):
        run_optimize(meanwhile=lambda: write_deltalake(table, wider, mode="append", schema_mode="merge"))
    assert list(tmp_path.glob("table/write-*")) == []


def test_a_path_without_a_table_stays_as_it_is(run_optimize, table):
    with pytest.raises(TableNotFoundError):
        run_optimize()
    assert not Path(table).exists()
