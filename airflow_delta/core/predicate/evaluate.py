"""Evaluates a predicate on files without opening them: partition values exactly, statistics as bounds.

For each leaf of the predicate two questions are answered for all files at once: may it be TRUE for some row, and may it be
anything else for some row. AND, OR and the verdicts follow from that; a wrong "may" costs time, but never loses a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.predicate.expression import (
    NEGATED,
    TRUE,
    And,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    StartsWith,
    decidable_columns,
    partition_part,
    referenced_columns,
    with_negation_at_leaves,
)
from airflow_delta.core.predicate.file_statistics import ColumnBounds, file_statistics
from airflow_delta.core.predicate.row_values import arrow_scalar, row_values
from airflow_delta.core.schema.data_types import StructType
from airflow_delta.core.schema.partition_values import partition_arrays

Verdicts: TypeAlias = pa.Int8Array
"""One of ``NO``, ``MAYBE``, ``ALL`` for each file."""

NO: Final = 0
"""No row of the file satisfies the predicate."""
MAYBE: Final = 1
"""Some rows may satisfy it, others may not."""
ALL: Final = 2
"""Every row of the file satisfies it."""

_MAX_RANGES = 32
"""A longer IN list is evaluated as this many ranges."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """Boolean arrays without NULL, with an element for each file."""

    may_hold: Any
    may_fail: Any


def evaluate_files(expression: Expression, files: pa.Table, schema: StructType, partition_columns: Iterable[str]) -> Verdicts:
    """The predicate's verdict for the rows of each file.

    Args:
        expression: The predicate, as ``parse_predicate`` made it for this schema.
        files: Columns ``partition_values`` and ``stats`` as in ``ADD_FILE``.
        schema: The table's schema.
        partition_columns: Names of the partition columns.

    Raises:
        InvalidPartitionValueError: A partition value is not of its column's type.
    """
    expression, partitions = with_negation_at_leaves(expression), set(partition_columns)
    on_partitions = partition_part(expression, partitions)
    if on_partitions in (expression, TRUE):
        return _verdicts(expression, files, schema, partitions)
    # Parsing statistics is expensive, so it is only done for the files left.
    verdicts = _verdicts(on_partitions, files, schema, partitions)
    is_open = pc.not_equal(verdicts, NO)
    rest = files.select(["partition_values", "stats"]).filter(is_open)
    return pc.replace_with_mask(verdicts, is_open, _verdicts(expression, rest, schema, partitions))


def filter_files(expression: Expression, files: pa.Table, schema: StructType, partition_columns: Iterable[str]) -> pa.Table:
    """The files that may have a row that satisfies the predicate. Arguments and errors as of ``evaluate_files``."""
    return files.filter(pc.not_equal(evaluate_files(expression, files, schema, partition_columns), NO))


def _verdicts(expression: Expression, files: pa.Table, schema: StructType, partitions: set[str]) -> Verdicts:
    names = referenced_columns(expression) & partitions
    values = partition_arrays(files, [field for name in names if (field := schema.find(name))])
    data_columns = [column for column in decidable_columns(expression) if column.name not in values]
    statistics = file_statistics(files["stats"], schema, data_columns) if data_columns else None
    bounds = statistics.columns if statistics else {}
    every, nowhere = (pa.repeat(pa.scalar(value), len(files)) for value in (True, False))

    def answer(leaf: Expression) -> _Answer:
        match leaf:
            case Comparison() | In() | IsNull() | StartsWith() as plain:
                negated = False
            case Not(Comparison() | In() | IsNull() | StartsWith() as plain):
                negated = True
            case Literal(value):
                return _Answer(every, nowhere) if value else _Answer(nowhere, every)
            case _:  # opaque
                return _Answer(every, every)
        if plain.column.name in values:
            holds = pc.fill_null(row_values(leaf, lambda column: values[column.name]), False)
            return _Answer(holds, pc.invert(holds))
        return _from_bounds(plain, bounds[plain.column], negated=negated)

    found = _combined(expression, answer)
    verdicts = pc.if_else(found.may_hold, pc.if_else(found.may_fail, MAYBE, ALL), NO)
    if statistics:
        verdicts = pc.if_else(statistics.is_empty, NO, verdicts)
    verdicts = verdicts.cast(pa.int8())
    return verdicts.combine_chunks() if isinstance(verdicts, pa.ChunkedArray) else verdicts


def _combined(expression: Expression, answer: Callable[[Expression], _Answer]) -> _Answer:
    if not isinstance(expression, And | Or):
        return answer(expression)
    answers = [_combined(operand, answer) for operand in expression.operands]
    all_of, one_of = (pc.and_, pc.or_) if isinstance(expression, And) else (pc.or_, pc.and_)
    return _Answer(
        reduce(all_of, (partial_answer.may_hold for partial_answer in answers)),
        reduce(one_of, (partial_answer.may_fail for partial_answer in answers)),
    )


# -- leaves, from bounds


def _from_bounds(leaf: Any, bounds: ColumnBounds, *, negated: bool) -> _Answer:
    if isinstance(leaf, IsNull):
        some, other = pc.invert(bounds.no_null), pc.invert(bounds.all_null)
        return _Answer(other, some) if negated else _Answer(some, other)
    never = pc.and_(bounds.no_null, pc.invert(bounds.no_null))
    if bounds.low is None:
        sure, sure_not = never, never
    else:
        sure, sure_not = (pc.fill_null(certainty, False) for certainty in _certainties(leaf, bounds, never))
    if isinstance(leaf, Comparison) and leaf.operator == "<=>":
        holds = pc.and_(pc.invert(sure_not), pc.invert(bounds.all_null))
        fails = pc.invert(pc.and_(sure, bounds.no_null))
        return _Answer(fails, holds) if negated else _Answer(holds, fails)
    if negated:
        sure, sure_not = sure_not, sure
    if isinstance(leaf, In) and negated and any(value.value is None for value in leaf.values):
        return _Answer(never, pc.invert(never))
    return _Answer(pc.and_(pc.invert(sure_not), pc.invert(bounds.all_null)), pc.invert(pc.and_(sure, bounds.no_null)))


def _certainties(leaf: Any, bounds: ColumnBounds, never: Any) -> tuple[Any, Any]:
    """Whether the leaf is certainly TRUE, and whether it is certainly FALSE, for every value that is not NULL."""
    match leaf:
        case Comparison(operator, _, literal):
            operator = "=" if operator == "<=>" else operator
            value = arrow_scalar(literal)
            return _certainly(operator, bounds, value), _certainly(NEGATED[operator], bounds, value)
        case StartsWith(_, prefix):
            low_has, high_has = pc.starts_with(bounds.low, pattern=prefix), pc.starts_with(bounds.greatest, pattern=prefix)
            above = pc.and_(pc.greater(bounds.low, prefix), pc.invert(low_has))
            return pc.and_(low_has, high_has), pc.or_kleene(above, pc.less(bounds.greatest, prefix))
        case In(_, literals):
            return _certainly_in(literals, bounds, never), _certainly_not_in(literals, bounds, never)
    return never, never


def _certainly(operator: str, bounds: ColumnBounds, value: pa.Scalar) -> Any:
    match operator:
        case "=":
            return pc.and_kleene(pc.equal(bounds.low, value), pc.equal(bounds.greatest, value))
        case "!=":
            return pc.or_kleene(pc.greater(bounds.low, value), pc.less(bounds.high, value))
        case "<":
            return pc.less(bounds.greatest, value)
        case "<=":
            return pc.less_equal(bounds.greatest, value)
        case ">":
            return pc.greater(bounds.low, value)
        case _:
            return pc.greater_equal(bounds.low, value)


def _certainly_in(literals: tuple[Literal, ...], bounds: ColumnBounds, never: Any) -> Any:
    """Whether there is only one value, and it is in the list."""
    items = [arrow_scalar(literal) for literal in literals if literal.value is not None]
    if not items or items[0].type != bounds.low.type:
        return never
    values = pa.array([item.as_py() for item in items], items[0].type)
    return pc.and_kleene(pc.equal(bounds.low, bounds.greatest), pc.is_in(bounds.low, value_set=values))


def _certainly_not_in(literals: tuple[Literal, ...], bounds: ColumnBounds, never: Any) -> Any:
    """Whether every value of the list lies outside the bounds; a long list is taken as ranges of neighboring values."""
    known = [literal for literal in literals if literal.value is not None]
    if any(literal.value != literal.value for literal in known):
        return never
    known.sort(key=lambda literal: literal.value)
    step = max(1, -(-len(known) // _MAX_RANGES))
    parts = (known[start : start + step] for start in range(0, len(known), step))
    ranges = ((arrow_scalar(part[0]), arrow_scalar(part[-1])) for part in parts)
    outside = (pc.or_kleene(pc.greater(bounds.low, last), pc.less(bounds.high, first)) for first, last in ranges)
    return reduce(pc.and_kleene, outside, pc.invert(never))
