"""Cases of a test that are left to the slow runs."""

import pytest


def slow_after(count, cases):
    """Cases for ``parametrize``: the first run with each change; the others, which take much the same way, are slow tests.

    A tuple is a case of several arguments.
    """
    cases = list(cases)
    arguments = [case if isinstance(case, tuple) else (case,) for case in cases[count:]]
    return [*cases[:count], *(pytest.param(*case, marks=pytest.mark.slow) for case in arguments)]
