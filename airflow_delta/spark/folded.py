"""Combines many columns or DataFrames into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

_Term = TypeVar("_Term")


def folded(combine: Callable[[_Term, _Term], _Term], terms: Sequence[_Term]) -> _Term:
    """Combine these terms (at least one) with an associative operator, in order.

    Nesting is kept low: Spark Connect rejects plans of a hundred levels, which fifty terms in a row would already reach.
    """
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return combine(folded(combine, terms[:half]), folded(combine, terms[half:]))
