"""What the log shows about files, and what Arrow filters, against the rows that duckdb selects."""

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_delta.core.errors import InvalidPredicateError
from airflow_delta.core.predicate import (
    ALL,
    NO,
    conjunction,
    disjunction,
    evaluate_files,
    filter_files,
    is_exact,
    is_partition_only,
    parse_predicate,
    partition_part,
    to_arrow_expression,
)
from tests.core.predicate.strategies import PARTITION_COLUMNS, SCHEMA, predicates, samples

REFERENCE = duckdb.connect()


def truth(rows, sql):
    """TRUE, FALSE or NULL for each row, as duckdb says."""
    naive = rows.set_column(rows.schema.get_field_index("ts"), "ts", rows["ts"].cast(pa.timestamp("us")))
    REFERENCE.register("sample", naive.append_column("position", pa.array(range(len(rows)), pa.int64())))
    return [value for (value,) in REFERENCE.sql(f"SELECT ({sql}) FROM sample ORDER BY position").fetchall()]


def by_file(sample, values):
    values = iter(values)
    return [[next(values) for _ in range(len(rows))] for rows in sample.rows]


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sample=samples(), predicate=predicates)
def test_a_file_said_to_hold_no_row_holds_none_and_one_said_to_hold_only_such_rows_does(sample, predicate):
    expression = parse_predicate(predicate[0], SCHEMA, "t")
    verdicts = evaluate_files(expression, sample.files, SCHEMA, PARTITION_COLUMNS)
    assert verdicts.type == pa.int8()
    for verdict, selected in zip(
        verdicts.to_pylist(), by_file(sample, truth(pa.concat_tables(sample.rows), predicate[1])), strict=True
    ):
        if verdict == NO:
            assert True not in selected
        elif verdict == ALL:
            assert all(selected)
    kept = filter_files(expression, sample.files, SCHEMA, PARTITION_COLUMNS)
    assert len(kept) == sum(verdict != NO for verdict in verdicts.to_pylist())


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sample=samples(), predicate=predicates)
def test_the_arrow_filter_selects_exactly_the_rows_that_duckdb_selects(sample, predicate):
    expression = parse_predicate(predicate[0], SCHEMA, "t")
    rows = pa.concat_tables(sample.rows)
    if not is_exact(expression):
        with pytest.raises(InvalidPredicateError):
            to_arrow_expression(expression)
        return
    numbered = rows.append_column("position", pa.array(range(len(rows)), pa.int64()))
    found = numbered.filter(to_arrow_expression(expression))["position"].to_pylist()
    assert found == [position for position, value in enumerate(truth(rows, predicate[1])) if value]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sample=samples(), predicate=predicates)
def test_the_partition_part_holds_wherever_the_predicate_does_and_is_exact_on_partition_columns(sample, predicate):
    expression = parse_predicate(predicate[0], SCHEMA, "t")
    part = partition_part(expression, PARTITION_COLUMNS)
    assert is_partition_only(part, PARTITION_COLUMNS)
    verdicts = evaluate_files(part, sample.files, SCHEMA, PARTITION_COLUMNS).to_pylist()
    for verdict, selected in zip(verdicts, by_file(sample, truth(pa.concat_tables(sample.rows), predicate[1])), strict=True):
        assert verdict != NO or True not in selected
        assert not is_exact(part) or verdict in (NO, ALL)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sample=samples(), many=st.lists(predicates, max_size=3))
def test_a_conjunction_and_a_disjunction_of_predicates_select_as_their_sql_does(sample, many):
    expressions = [parse_predicate(sql, SCHEMA, "t") for sql, _ in many]
    rows = pa.concat_tables(sample.rows)
    if not all(map(is_exact, expressions)):
        return
    for joined, word, none in ((conjunction(expressions), " AND ", "true"), (disjunction(expressions), " OR ", "false")):
        expected = truth(rows, word.join(f"({sql})" for _, sql in many) or none)
        assert len(rows.filter(to_arrow_expression(joined))) == sum(value is True for value in expected)
        assert len(rows.filter(pc.is_null(to_arrow_expression(joined)))) == expected.count(None)
