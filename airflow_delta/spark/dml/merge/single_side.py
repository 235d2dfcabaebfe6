"""Qualifies columns in clauses about one side of a MERGE, so that they keep their meaning where both sides are visible."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from airflow_delta.core.schema import StructType
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.statements import Clause, NotMatchedBySourceDelete, NotMatchedBySourceUpdate, NotMatchedInsert
from airflow_delta.spark.constraints.assignments import is_default
from airflow_delta.spark.constraints.column_references import SOURCE, TARGET, qualified


def about_one_side(clauses: Iterable[Clause], schema: StructType, source_columns: Iterable[str]) -> Iterator[Clause]:
    """The clauses; in those about only the source or only the target, columns that both sides have are qualified.

    Args:
        clauses: The statement's clauses.
        schema: The target's schema.
        source_columns: Names of the source's columns.
    """
    both = {name_key(name) for name in schema.names} & {name_key(name) for name in source_columns}
    for clause in clauses:
        if isinstance(clause, NotMatchedInsert):
            yield _of(clause, SOURCE, both)
        elif isinstance(clause, NotMatchedBySourceUpdate | NotMatchedBySourceDelete):
            yield _of(clause, TARGET, both)
        else:
            yield clause


def _of(clause: Clause, side: str, names: Collection[str]) -> Clause:
    condition = None if clause.condition is None else qualified(clause.condition, side, names)
    if not isinstance(clause, NotMatchedInsert | NotMatchedBySourceUpdate) or clause.assignments is None:
        return replace(clause, condition=condition)
    assigned = {name: text if is_default(text) else qualified(text, side, names) for name, text in clause.assignments.items()}
    return replace(clause, condition=condition, assignments=assigned)
