"""Cases of a test that are left to the slow runs."""

import pytest


def slow_after(count, cases):
    """Cases for ``parametrize``: the first run with each change; the others, which take much the same way, are slow tests.

    A tuple is a case of several arguments.
    """
    cases = list(cases)
    return [*cases[:count], *map(_slow, cases[count:])]


def _slow(case):
    if hasattr(case, "marks"):  # pytest.param
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.slow])
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
