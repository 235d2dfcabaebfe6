"""Parametrized cases that are left to the slow tests."""

import pytest


def slow_after(count, cases):
    """Cases for ``parametrize``: the first ones always run; the others, which cover much the same code, are slow tests.

    A tuple is a case with several arguments.
    """
    cases = list(cases)
    arguments = [case if isinstance(case, tuple) else (case,) for case in cases[count:]]
    return [*cases[:count], *(pytest.param(*case, marks=pytest.mark.slow) for case in arguments)]
