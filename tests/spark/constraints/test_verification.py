"""A job of Spark's adds constraints that the core cannot decide: Spark reads the rows."""

from functools import partial

import pytest

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ConstraintViolatedError, InvalidTableChangeError
from airflow_delta.core.statements import AddColumns, AddConstraint, AlterStatement
from airflow_delta.jobs.core_statements import execute_in_core
from airflow_delta.jobs.runner import Backend
from airflow_delta.spark.constraints.verification import check_rows


def test_rows_are_checked_by_spark_before_a_constraint_holds_for_all_that_follow(spark, create, write_rows, table):
    create("id BIGINT, v BIGINT, `order` STRING")

    def alter(*changes):
        statement = AlterStatement(table=table, changes=changes)
        log = DeltaLog.for_table(table)
        return execute_in_core(log, statement, origin=Origin(), backend=Backend(rows_check=partial(check_rows, spark)))

    write_rows("SELECT id, id * 2 AS v, concat('s', id) AS `order` FROM range(5)")
    for sql, rows in (("v % 4 = 0", 2), ("v + id < 10", 1), ("nullif(v, 4) >= 0 AND length(`order`) = 2", 1)):
        with pytest.raises(ConstraintViolatedError) as caught:
            alter(AddConstraint("c", sql))
        assert (caught.value.constraint, caught.value.rows) == (f"the constraint c ({sql})", rows)
    for wrong in ("v + 1", "no_such_function(v)"):
        with pytest.raises(InvalidTableChangeError):
            alter(AddConstraint("c", wrong))
    with pytest.raises(InvalidTableChangeError):
        alter(AddColumns("n BIGINT"), AddConstraint("c", "n + 1 > 0"))
    alter(AddConstraint("c", "v + id < 13"), AddConstraint("d", "upper(`order`) LIKE 'S%'"))
    with pytest.raises(ConstraintViolatedError, match="CHECK c"):
        write_rows("SELECT 5L AS id, 8L AS v, 's' AS `order`")

    assert DeltaLog.for_table(table).snapshot().version == 2
