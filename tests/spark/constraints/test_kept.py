"""No row that violates a constraint of its table is committed, whichever statement brings it."""

import json
from dataclasses import replace

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ConstraintViolatedError
from airflow_delta.core.schema import StructType, parse_schema, schema_json
from airflow_delta.core.statements import UPSERT, MatchedUpdate, NotMatchedInsert, WriteMode
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.spark.errors import TableRuleUnreadableError
from tests.slow_cases import slow_after

DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture
def with_column_metadata(table):
    """Give a column of the table this metadata."""

    def change(name, metadata):
        log = DeltaLog.for_table(table)
        snapshot = log.snapshot()
        fields = (
            replace(field, metadata={**field.metadata, **metadata}) if field.name == name else field
            for field in parse_schema(snapshot.metadata.schema_string).fields
        )
        transaction = log.start_transaction(snapshot)
        transaction.set_metadata(replace(snapshot.metadata, schema_string=schema_json(StructType(tuple(fields)))))
        transaction.commit(operation=Operation(name="CHANGE COLUMN"))

    return change


def test_delta_spark_s_constraints_hold_for_what_is_appended(by_delta_spark, write_rows, reference_rows):
    by_delta_spark("check_constraints")
    before = reference_rows(columns="id, v")
    for values, broken in (("1 AS id, -1 AS v", "CHECK pos (v > 0)"), ("1 AS id, NULL AS v", "CHECK pos (v > 0)")):
        with pytest.raises(ConstraintViolatedError) as caught:
            write_rows(f"SELECT {values}, named_struct('x', 1) AS st UNION ALL SELECT 2, 2, named_struct('x', 1)")
        assert (caught.value.constraint, caught.value.rows) == (broken, 1)
    with pytest.raises(ConstraintViolatedError, match="NOT NULL inside st"):
        write_rows("SELECT 1 AS id, 1 AS v, named_struct('x', CAST(NULL AS INT)) AS st")
    write_rows("SELECT 2000 AS id, 1 AS v, named_struct('x', 5) AS st")

    assert reference_rows(columns="id, v") == sorted([*before, (2000, 1)])


@pytest.mark.classic(reason="over Spark Connect, a rule with a comment is refused")
@pytest.mark.parametrize("mode", [WriteMode.OVERWRITE, WriteMode.APPEND])
def test_a_constraint_on_a_partition_column_and_a_member_of_a_struct(create, write_rows, reference_rows, mode):
    create("id BIGINT, p STRING, s STRUCT<n: INT>", partition_by=["p"], constraints={"c": "p <> 'x' AND s.n < 3 -- so it is"})
    write_rows("SELECT 1L AS id, 'a' AS p, named_struct('n', 1) AS s", mode=mode)
    with pytest.raises(ConstraintViolatedError) as caught:
        write_rows(
            """SELECT id, IF(id = 1, 'x', 'a') AS p, named_struct('n', CAST(id AS INT)) AS s FROM range(4)
               UNION ALL SELECT 9, '', named_struct('n', 1)""",
            mode=mode,
        )

    assert caught.value.rows == 3  # an empty text is NULL in a partition column
    assert reference_rows(columns="id") == [(1,)]


@pytest.mark.parametrize("properties", slow_after(1, [DELETION_VECTORS, {}]))
def test_an_update_violates_no_constraint_also_of_columns_that_it_does_not_touch(create, write_rows, change, seen, properties):
    create("id BIGINT, v BIGINT, w BIGINT, z BIGINT", constraints={"sum": "v + w < 10", "z": "z >= 0"}, properties=properties)
    write_rows("SELECT id, id AS v, id AS w, 0L AS z FROM range(4)")
    with pytest.raises(ConstraintViolatedError) as caught:
        change("id > 0", assignments={"v": "v + 6"})
    assert (caught.value.constraint, caught.value.rows) == ("CHECK sum (v + w < 10)", 2)
    with pytest.raises(ConstraintViolatedError) as caught:
        change("id > 1", assignments={"w": "NULL"}, dry_run=True)
    assert caught.value.rows == 2
    change("id > 0", assignments={"w": "v + 1"})

    assert seen("id, v, w") == [(0, 0, 0), (1, 1, 2), (2, 2, 3), (3, 3, 4)]


@pytest.mark.parametrize("properties", slow_after(1, [DELETION_VECTORS, {}]))
def test_an_update_puts_no_null_where_there_must_be_none_at_any_depth(create, write_rows, change, seen, properties):
    create("id BIGINT, v INT NOT NULL, s STRUCT<x: INT NOT NULL>, l ARRAY<STRUCT<y: INT NOT NULL>>", properties=properties)
    write_rows("SELECT id, 1 AS v, named_struct('x', 1) AS s, array(named_struct('y', 1)) AS l FROM range(3)")
    for name, value, broken in (
        ("v", "NULL", "NOT NULL of v"),
        ("s", "named_struct('x', nullif(1, 1))", "NOT NULL inside s"),
        ("l", "array(named_struct('y', nullif(1, 1)))", "NOT NULL inside l"),
    ):
        with pytest.raises(ConstraintViolatedError) as caught:
            change("id > 0", assignments={name: value})
        assert (caught.value.constraint, caught.value.rows) == (broken, 2)

    assert seen("id, v, s.x") == [(0, 1, 1), (1, 1, 1), (2, 1, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("properties", [{}, DELETION_VECTORS])
def test_a_merge_violates_no_constraint_with_updates_or_inserts(create, write_rows, put_together, seen, properties):
    create("id BIGINT, v BIGINT, w BIGINT", constraints={"sum": "v + w < 10"}, properties=properties)
    write_rows("SELECT id, id AS v, id AS w FROM range(4)")
    clauses = [MatchedUpdate(assignments={"v": "source.v"}), NotMatchedInsert()]
    for source, rows in (
        ("SELECT id, 8L AS v, 1L AS w FROM range(4)", 2),
        ("SELECT id, 8L AS v, 2L AS w FROM range(5, 8)", 3),
        ("SELECT 9L AS id, 8L AS v, CAST(NULL AS BIGINT) AS w", 1),
    ):
        with pytest.raises(ConstraintViolatedError) as caught:
            put_together(source, clauses=clauses)
        assert (caught.value.constraint, caught.value.rows) == ("CHECK sum (v + w < 10)", rows)
    put_together("SELECT id, 6L AS v, 3L AS w FROM range(3, 5)", clauses=clauses)

    assert seen() == [(0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 6, 3), (4, 6, 3)]


def test_an_invariant_is_kept_by_writes_updates_and_merges(
    create, write_rows, change, put_together, with_column_metadata, seen
):
    create("id BIGINT, v BIGINT")
    with_column_metadata("v", {"delta.invariants": json.dumps({"expression": {"expression": "v > 3"}})})
    write_rows("SELECT 1L AS id, 4L AS v")
    for brings in (
        lambda: write_rows("SELECT 2L AS id, 3L AS v"),
        lambda: write_rows("SELECT 2L AS id"),
        lambda: change(assignments={"v": "v - 1"}),
        lambda: put_together("SELECT 1L AS id, 0L AS v", clauses=UPSERT),
    ):
        with pytest.raises(ConstraintViolatedError) as caught:
            brings()
        assert (caught.value.constraint, caught.value.rows) == ("the invariant of v (v > 3)", 1)

    assert seen() == [(1, 4)]


@pytest.mark.parametrize(
    "text", ["no_such_column > 0", "v > ", "v + 1", "count(v) > 0", "no_such_function(v)", "v = 'unclosed"]
)
def test_a_constraint_that_means_nothing_to_spark_is_named_and_nothing_is_written(create, write_rows, change, table, text):
    create("id BIGINT, v BIGINT")
    log = DeltaLog.for_table(table)
    write_rows("SELECT 1L AS id, 1L AS v")
    snapshot = log.refresh()
    transaction = log.start_transaction(snapshot)
    transaction.set_metadata(replace(snapshot.metadata, configuration={"delta.constraints.odd": text}))
    transaction.set_protocol(replace(snapshot.protocol, min_writer_version=3))
    transaction.commit(operation=Operation(name="ADD CONSTRAINT"))
    for brings in (lambda: write_rows("SELECT 1L AS id, 1L AS v"), lambda: change(assignments={"v": "2L"})):
        with pytest.raises(TableRuleUnreadableError) as caught:
            brings()
        assert caught.value.rule == f"CHECK odd ({text})"

    assert DeltaLog.for_table(table).snapshot().version == 2


def test_an_invariant_that_is_no_document_is_named(create, write_rows, with_column_metadata):
    create("id BIGINT")
    with_column_metadata("id", {"delta.invariants": "id > 3"})
    with pytest.raises(TableRuleUnreadableError, match="the invariant of id"):
        write_rows("SELECT 1L AS id")


@pytest.mark.parametrize("properties", slow_after(1, [DELETION_VECTORS, {}]))
def test_a_text_that_is_longer_than_its_column_takes(
    create, write_rows, change, put_together, with_column_metadata, seen, properties
):
    create("id BIGINT, v VARCHAR(3), c CHAR(2), a ARRAY<STRING>", properties=properties)
    with_column_metadata("a", {"__CHAR_VARCHAR_TYPE_STRING": "array<varchar(2)>"})
    write_rows("SELECT 1L AS id, 'äöü' AS v, 'ab' AS c, array('ab', NULL) AS a UNION ALL SELECT 2L, NULL, '', NULL")
    before = seen(columns="id, v, a")
    long_text = "SELECT 3L AS id, 'abcd' AS v, 'ab' AS c, array('a') AS a"
    long_element, assigned = "SELECT 1L AS id, array('ab', 'abc') AS a", [MatchedUpdate(assignments={"a": "source.a"})]

    for name, refused in (
        ("v (varchar(3))", lambda: write_rows(long_text)),
        ("v (varchar(3))", lambda: write_rows(long_text, mode="overwrite")),
        ("v (varchar(3))", lambda: put_together(long_text, clauses=UPSERT)),
        ("v (varchar(3))", lambda: change(assignments={"v": "concat(v, '!')"})),
        ("c (char(2))", lambda: change("id = 1", assignments={"c": "'abc'"})),
        ("a (array<varchar(2)>)", lambda: put_together(long_element, clauses=assigned)),
    ):
        with pytest.raises(ConstraintViolatedError) as caught:
            refused()
        assert (caught.value.constraint, caught.value.rows) == (f"the length of {name}", 1)

    assert seen(columns="id, v, a") == before
