"""Predicates go through JSON unchanged."""

import datetime as dt
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.predicate import And, Column, Comparison, In, IsNull, Literal, Not, Opaque, Or, StartsWith
from airflow_delta.core.predicate.json_form import predicate_from_json, predicate_to_json
from airflow_delta.core.schema.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
)

LITERALS = st.one_of(
    st.builds(Literal, st.none() | st.integers(-(1 << 63), (1 << 63) - 1), st.just(LONG)),
    st.builds(Literal, st.floats(allow_nan=False), st.just(DOUBLE)),
    st.builds(Literal, st.text(), st.just(STRING)),
    st.builds(Literal, st.binary(), st.just(BINARY)),
    st.builds(Literal, st.none() | st.booleans(), st.just(BOOLEAN)),
    st.builds(Literal, st.dates(), st.just(DATE)),
    st.builds(Literal, st.datetimes(), st.just(TIMESTAMP_NTZ)),
    st.builds(Literal, st.datetimes(timezones=st.just(dt.UTC)), st.just(TIMESTAMP)),
    st.builds(Literal, st.decimals(-99, 99, places=2), st.just(DecimalType(4, 2))),
)
COLUMNS = st.builds(Column, st.text(min_size=1), st.lists(st.text(), max_size=2).map(tuple))
LEAVES = st.one_of(
    LITERALS,
    st.builds(Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>"]), COLUMNS, LITERALS),
    st.builds(In, COLUMNS, st.lists(LITERALS, max_size=3).map(tuple)),
    st.builds(IsNull, COLUMNS),
    st.builds(StartsWith, COLUMNS, st.text()),
    st.builds(Opaque, st.text(), st.lists(COLUMNS, max_size=2).map(tuple)),
)
PREDICATES = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.builds(Not, parts),
        st.builds(And, st.lists(parts, max_size=3).map(tuple)),
        st.builds(Or, st.lists(parts, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)


@given(PREDICATES)
def test_a_predicate_goes_through_json_unchanged(predicate):
    assert predicate_from_json(json.loads(json.dumps(predicate_to_json(predicate)))) == predicate


def test_nan_stays_nan():
    literal = predicate_from_json(predicate_to_json(Literal(float("nan"), DOUBLE)))
    assert (literal.value != literal.value, literal.type) == (True, DOUBLE)


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"and": {}}, {"not": None}, {"compare": "~", "column": ["a"], "literal": {}}, {"is_null": []}, {"in": [1]}],
    ids=str,
)
def test_what_is_no_predicate_is_refused(document):
    with pytest.raises(ValueError, match=r"no predicate|not enough"):
        predicate_from_json(document)


@pytest.mark.parametrize("text", ["1e400", "x", ""])
def test_a_constant_that_is_not_of_its_type_is_refused(text):
    literal = predicate_to_json(Literal(Decimal("1.5"), DecimalType(4, 2)))["literal"]
    with pytest.raises(ValueError, match="no predicate"):
        predicate_from_json({"literal": {**literal, "decimal": text}})
