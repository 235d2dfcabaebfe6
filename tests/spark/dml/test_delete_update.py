"""DELETE and UPDATE are what plain Spark says of the same rows; other engines read the result."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    AppendOnlyTableError,
    ExpectationFailedError,
    InvalidStatementError,
    SchemaMismatchError,
)
from airflow_delta.core.statements import DeleteStatement, SqlSource, UpdateStatement, WriteStatement
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.write.write import write

ROWS = """
    SELECT id, IF(id % 5 = 0, NULL, id * 1.5D) AS v, CONCAT('p', id % 3) AS p, IF(id % 4 = 0, NULL, CONCAT('s', id)) AS s
    FROM range(24)
"""


@pytest.fixture
def run(spark, table):
    """Run a DELETE or an UPDATE on the table."""

    def statement(where=None, *, assignments=None, origin=None, start_version=None, **options):
        log = DeltaLog.for_table(table)
        arguments = {"origin": origin, "start_version": start_version}
        if assignments is None:
            return delete(spark, log, DeleteStatement(table=table, where=where, **options), **arguments)
        changed = UpdateStatement(table=table, where=where, assignments=assignments, **options)
        return update(spark, log, changed, **arguments)

    return statement


@pytest.fixture
def rows(write_rows, table):
    """The table: 24 rows in two files for each of three partitions."""
    for half in ("id < 12", "id >= 12"):
        write_rows(f"SELECT * FROM ({ROWS}) WHERE {half}", partition_by="p")
    return table


def expected(spark, query):
    return sorted(map(tuple, spark.sql(query.replace("rows", f"({ROWS})")).collect()), key=str)


def found(table, columns=("id", "v", "p", "s")):
    read = DeltaTable(table).to_pyarrow_table().select(list(columns)).to_pylist()
    return sorted((tuple(row.values()) for row in read), key=str)


@pytest.mark.parametrize(
    ("where", "opened"),
    [
        ("id = 7", True),
        ("id % 3 = 1 AND v > 4", True),
        ("v IS NULL OR s < 's2'", True),
        ("NOT (v > 10)", True),
        ("p = 'p1'", False),
        ("p IN ('p0', 'p2')", False),
        ("upper(p) = 'P1' AND id > 3", True),
        (None, False),
    ],
)
def test_a_delete_leaves_the_rows_for_which_the_condition_is_not_true(run, rows, spark, reference_rows, where, opened):
    before = len(found(rows))
    result = run(where)

    left = expected(spark, f"SELECT id, v, p, s FROM rows WHERE NOT COALESCE(({where or 'TRUE'}), FALSE)")
    assert found(rows) == left
    assert len(reference_rows()) == len(left)
    assert (result.operation, result.version, result.committed) == ("DELETE", 2, True)
    assert result.metrics["numDeletedRows"] == before - len(left)
    assert bool(result.metrics["numAddedFiles"]) == opened


@pytest.mark.parametrize("where", ["+code = '1.5'", "code = +'1.5' OR +part = '1.5'", "+part = 1.5", "+code IN ('1.5')"])
def test_a_plus_before_a_text_makes_a_number_of_it(run, write_rows, table, where):
    write_rows("SELECT * FROM VALUES ('1.50', '1.50'), ('2', '2') AS t(code, part)", partition_by="part")

    assert run(where).metrics["numDeletedRows"] == 1
    assert found(table, ["code"]) == [("2",)]


NESTED = """
    SELECT id, map('env', IF(id = 1, 'x', 'y')) AS props, array(named_struct('sku', IF(id = 1, 'x', 'y'), 'price', id)) AS items
    FROM range(3)
"""


@pytest.mark.parametrize(
    "where",
    [
        "props.env = 'x'",
        "target.props.env = 'x'",
        "array_contains(items.sku, 'x')",
        "items.price[0] = 1",
        "id >>> 0 = 1",
        "named_struct('x', id).x = 1",
    ],
)
def test_a_condition_that_only_spark_can_take_apart_selects_rows(run, write_rows, table, where):
    write_rows(NESTED)
    updated = run(where, assignments={"id": "10L"})
    deleted = run("props.env = 'x' AND id = 10")

    assert (updated.metrics["numUpdatedRows"], deleted.metrics["numDeletedRows"]) == (1, 1)
    assert found(table, ["id"]) == [(0,), (2,)]


def test_a_delete_of_nothing_commits_nothing(run, rows):
    for where in ("id = 99", "p = 'p9'", "id % 3 = 7"):
        result = run(where)
        assert (result.committed, result.version, result.metrics["numDeletedRows"]) == (False, 1, 0)


def test_a_dry_run_counts_and_commits_nothing(run, rows):
    counted = [run(where, dry_run=True).metrics["numDeletedRows"] for where in ("id < 5", "p = 'p1'")]
    updated = run("id < 5", assignments={"v": "0D"}, dry_run=True)
    assert (counted, updated.metrics["numUpdatedRows"], DeltaTable(rows).version()) == ([5, 8], 5, 1)


@pytest.mark.parametrize(
    ("assignments", "where", "query"),
    [
        ({"v": "v + id"}, "id % 2 = 0", "SELECT id, IF(id % 2 = 0, v + id, v), p, s FROM rows"),
        ({"s": "NULL", "v": "0"}, None, "SELECT id, CAST(0 AS DOUBLE), p, CAST(NULL AS STRING) FROM rows"),
        ({"p": "'p9'"}, "id < 3", "SELECT id, v, IF(id < 3, 'p9', p), s FROM rows"),
        ({"p": "s", "s": "p"}, "id = 5", "SELECT id, v, IF(id = 5, s, p), IF(id = 5, p, s) FROM rows"),
        ({"target.id": "target.id + 100"}, "target.p = 'p1'", "SELECT IF(p = 'p1', id + 100, id), v, p, s FROM rows"),
    ],
)
def test_an_update_gives_the_values_computed_from_the_row_as_it_was(
    run, rows, spark, reference_rows, assignments, where, query
):
    result = run(where, assignments=assignments)

    assert found(rows) == expected(spark, query)
    assert len(reference_rows()) == 24
    changed = len(expected(spark, f"SELECT id FROM rows WHERE {(where or 'TRUE').replace('target.', '')}"))
    assert result.metrics["numUpdatedRows"] == changed


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"where": "id = 1", "assignments": {"nothing": "1"}}, SchemaMismatchError),
        ({"where": "id = 1", "assignments": {"id": "array(1)"}}, SchemaMismatchError),
        ({"where": "id = 1", "assignments": {"v": "source.v"}}, SchemaMismatchError),
        ({"where": "id = 1", "assignments": {"v": "-1D"}, "expect": "v > 0"}, ExpectationFailedError),
        ({"where": "id = 1", "assignments": {}}, InvalidStatementError),
        ({"where": " "}, InvalidStatementError),
    ],
)
def test_what_cannot_be_meant_changes_nothing(run, rows, arguments, error):
    files = sorted(Path(rows).rglob("*.parquet"))
    with pytest.raises(error):
        run(**arguments)
    assert (DeltaTable(rows).version(), sorted(Path(rows).rglob("*.parquet"))) == (1, files)


def test_a_text_without_quotes_of_its_own_is_refused_with_what_to_write(run, rows):
    with pytest.raises(SchemaMismatchError, match="the text closed stands in quotes: \"'closed'\""):
        run(where="id = 1", assignments={"v": "closed"})


def test_an_append_only_table_loses_no_row(run, rows, table):
    DeltaLog.for_table(table).alter().set_properties({"delta.appendOnly": "true"})
    for where in ("id = 1", "p = 'p1'"):
        with pytest.raises(AppendOnlyTableError):
            run(where)
    assert len(found(rows)) == 24


def test_a_retry_finds_its_commit(run, rows):
    origin = Origin(token="t1")
    first = run("id = 1", origin=origin, start_version=1)
    again = run("id = 1", origin=origin, start_version=1)
    assert (first.already_committed, again.already_committed, again.version, len(found(rows))) == (False, True, 2, 23)


def test_rows_that_others_add_meanwhile_are_deleted_too(spark, rows, write_rows):
    """A commit in between makes the round wrong; the next one sees its rows."""
    log = DeltaLog.for_table(rows)
    original = log.start_transaction
    put_once = iter([lambda: write_rows("SELECT 7L AS id, 7D AS v, 'p1' AS p, 'late' AS s")])

    def slow(*arguments, **options):
        transaction = original(*arguments, **options)
        next(put_once, lambda: None)()
        return transaction

    log.start_transaction = slow
    result = delete(spark, log, DeleteStatement(table=rows, where="id = 7"))
    assert (result.metrics["numDeletedRows"], result.attempts, len(found(rows))) == (2, 2, 23)
    assert [conflict["version"] for conflict in result.conflicts] == [2]


LEAVES = ["id {} {n}", "v {} {n}", "s IS NULL", "s IS NOT NULL", "v IS NULL", "p = 'p{n}'", "id % 4 = {n}", "p <> 'p0'"]
CONDITIONS = st.builds(
    lambda text, operator, n: text.format(operator, n=n),
    st.sampled_from([*LEAVES, "s LIKE 's1%'"]),
    st.sampled_from(["=", "<", ">=", "<=>", "<>"]),
    st.integers(0, 24),
)
PREDICATES = st.recursive(
    CONDITIONS,
    lambda inner: st.one_of(
        inner.map("NOT ({})".format),
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({})".format, inner, inner),
    ),
    max_leaves=4,
)
RUN = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], phases=[Phase.generate], deadline=None)


def check(spark, table, where, *, updates):
    shutil.rmtree(table, ignore_errors=True)
    log = DeltaLog.for_table(table)
    for half in ("id < 12", "id >= 12"):
        source = SqlSource(f"SELECT * FROM ({ROWS}) WHERE {half}")
        write(spark, log, WriteStatement(table=table, source=source, partition_by=("p",)))
    if updates:
        update(spark, log, UpdateStatement(table=table, where=where, assignments={"v": "v + 1", "p": "'p1'"}))
        query = f"SELECT id, IF(({where}), v + 1, v), IF(({where}), 'p1', p), s FROM rows"
    else:
        delete(spark, log, DeleteStatement(table=table, where=where))
        query = f"SELECT id, v, p, s FROM rows WHERE NOT COALESCE(({where}), FALSE)"
    assert found(table) == expected(spark, query), where


@pytest.mark.slow
@given(where=PREDICATES, updates=st.booleans())
@settings(RUN, max_examples=6)
def test_any_condition_means_what_spark_says(spark, table, where, updates):
    check(spark, table, where, updates=updates)


@pytest.mark.slow
@given(where=PREDICATES, updates=st.booleans())
@settings(RUN, max_examples=100)
def test_a_hundred_conditions_mean_what_spark_says(spark, table, where, updates):
    check(spark, table, where, updates=updates)
