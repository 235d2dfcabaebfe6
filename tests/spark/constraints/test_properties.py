"""Random rows with NULLs against random constraints: what is kept is what plain Spark says of the same rows."""

import shutil

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ConstraintViolatedError
from airflow_delta.core.statements import (
    MatchedUpdate,
    MergeStatement,
    NotMatchedInsert,
    SqlSource,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.core.table_changes.create import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.write.write import write

RUN = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], phases=[Phase.generate], deadline=None, max_examples=5
)
COLUMNS = "id BIGINT, a INT, b DOUBLE, s STRING, total DOUBLE GENERATED ALWAYS AS (a + b), p STRING DEFAULT 'p'"
NAMES = ("id", "a", "b", "s", "total", "p")

numbers = st.sampled_from(["NULL", "-1", "0", "1", "2", "7"])
floats = st.sampled_from(["NULL", "-0.5D", "0D", "2.5D", "DOUBLE('NaN')", "DOUBLE('Infinity')"])
texts = st.sampled_from(["NULL", "''", "'x'", "'Ünï'", "'p'"])
rows = st.lists(st.tuples(numbers, floats, texts, texts), min_size=1, max_size=8)
atoms = st.sampled_from(
    [
        "a > 0",
        "a IS NULL OR a <= b",
        "b < 3",
        "s <> ''",
        "length(s) < 3",
        "s IN ('x', 'p', NULL)",
        "a BETWEEN 0 AND 2",
        "total >= 1",
        "p = s",
        "coalesce(a, 0) % 2 = 0",
        "p IS NOT NULL",
        "a <=> 1",
    ]
)
conditions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=3,
)


UPDATED = "id % 2 = 0"
NEW_VALUES = st.sampled_from(["a + 1", "NULL", "-a", "2"])


def query(values):
    """The rows as in their source, without the generated column."""
    lines = enumerate(values)
    return " UNION ALL ".join(
        f"SELECT {n}L AS id, CAST({a} AS INT) AS a, {b} AS b, {s} AS s, {p} AS p" for n, (a, b, s, p) in lines
    )


def whole(values, partitioned):
    """The rows as in the table. Only in a partition column, an empty text is NULL."""
    p = "NULLIF(p, '') AS p" if partitioned else "p"
    return f"SELECT id, a, b, s, CAST(a + b AS DOUBLE) AS total, {p} FROM ({query(values)})"


def collected(spark, sql):
    return sorted(str(tuple(row)) for row in spark.sql(sql).collect())


def broken(spark, sql, condition):
    return spark.sql(f"SELECT count(*) FROM ({sql}) WHERE ({condition}) IS NOT TRUE").first()[0]


def found(table):
    return sorted(str(tuple(row[name] for name in NAMES)) for row in DeltaTable(table).to_pyarrow_table().to_pylist())


def made(table, condition, partitioned):
    """A new table with the constraint; the statements that change it."""
    shutil.rmtree(table, ignore_errors=True)
    log = DeltaLog.for_table(table)
    partition_by = ("p",) if partitioned else ()
    log.create(NewTable(schema=parse_struct(COLUMNS), partition_columns=partition_by, constraints={"c": condition}))
    return log


def refused(run, condition, rows):
    """Run a statement that brings so many rows that break the condition. Returns whether it was refused."""
    if not rows:
        run()
        return False
    with pytest.raises(ConstraintViolatedError) as caught:
        run()
    assert (caught.value.constraint, caught.value.rows) == (f"CHECK c ({condition})", rows)
    return True


@RUN
@given(values=rows, condition=conditions, partitioned=st.booleans())
def test_a_write_is_refused_for_as_many_rows_as_spark_counts_and_takes_all_others(spark, table, values, condition, partitioned):
    log = made(table, condition, partitioned)
    stored = whole(values, partitioned)

    def write_rows(source):
        write(spark, log, WriteStatement(table=table, source=SqlSource(source)))

    if refused(lambda: write_rows(query(values)), condition, broken(spark, stored, condition)):
        assert found(table) == []
        write_rows(f"SELECT id, a, b, s, p FROM ({stored}) WHERE {condition}")

    assert found(table) == collected(spark, f"SELECT * FROM ({stored}) WHERE {condition}")


@pytest.mark.slow
@RUN
@given(values=rows, others=rows, condition=conditions, new=NEW_VALUES, partitioned=st.booleans())
def test_an_update_and_a_merge_are_refused_exactly_when_a_new_row_breaks_the_constraint(
    spark, table, values, others, condition, new, partitioned
):
    log = made(table, condition, partitioned)
    before = f"SELECT * FROM ({whole(values, partitioned)}) WHERE {condition}"
    write(spark, log, WriteStatement(table=table, source=SqlSource(f"SELECT id, a, b, s, p FROM ({before})")))

    changed = f"""SELECT id, IF({UPDATED}, CAST({new} AS INT), a) AS a, b, s, p FROM ({before})"""
    changed = f"SELECT id, a, b, s, CAST(a + b AS DOUBLE) AS total, p FROM ({changed})"
    statement = UpdateStatement(table=table, where=UPDATED, assignments={"a": new})
    rows = broken(spark, f"SELECT * FROM ({changed}) WHERE {UPDATED}", condition)
    before = before if refused(lambda: update(spark, log, statement), condition, rows) else changed
    assert found(table) == collected(spark, before)

    source = query(others)
    matched = f"""SELECT t.id, t.a, s.b, s.s, CAST(t.a + s.b AS DOUBLE) AS total, t.p
                  FROM ({before}) t JOIN ({source}) s ON t.id = s.id"""
    inserted = f"""SELECT id, a, b, CAST(NULL AS STRING) AS s, CAST(a + b AS DOUBLE) AS total, 'p' AS p
                   FROM ({source}) WHERE id NOT IN (SELECT id FROM ({before}))"""
    statement = MergeStatement(
        table=table,
        source=SqlSource(source),
        on="target.id = source.id",
        clauses=[
            MatchedUpdate(assignments={"b": "source.b", "s": "source.s"}),
            NotMatchedInsert(assignments={"id": "source.id", "a": "source.a", "b": "source.b"}),
        ],
    )
    # Rows that change in place are checked before any is written, so the two are counted apart.
    rows = broken(spark, matched, condition) or broken(spark, inserted, condition)
    if not refused(lambda: merge(spark, log, statement), condition, rows):
        unmatched = f"SELECT * FROM ({before}) WHERE id NOT IN (SELECT id FROM ({source}))"
        before = f"{matched} UNION ALL {inserted} UNION ALL {unmatched}"
    assert found(table) == collected(spark, before)
