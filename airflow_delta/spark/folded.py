"""Many columns, or DataFrames, of Spark's as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

_Term = TypeVar("_Term")


def folded(combine: Callable[[_Term, _Term], _Term], terms: Sequence[_Term]) -> _Term:
    """These terms, at least one, combined by an operator for which only their order matters, not the parentheses.

    Nested as little as can be: Spark Connect takes nothing of a hundred levels, which fifty terms in a row would be.
    """
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return combine(folded(combine, terms[:half]), folded(combine, terms[half:]))
