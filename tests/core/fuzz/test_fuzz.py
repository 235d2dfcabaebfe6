"""Garbage in a log, a checkpoint, a deletion vector or a data file: a typed error or the right answer, within limits.

Every case is made from its seed and number alone. ``python -m tests.core.fuzz.run --seed S --case N`` repeats one.
"""

import os

import pytest

from tests.core.fuzz.run import run

SEED = int(os.environ.get("FUZZ_SEED", "20240229"))
CASES = int(os.environ.get("FUZZ_CASES", "100000"))


def reported(failures, seed):
    repeat = f"python -m tests.core.fuzz.run --seed {seed} --case"
    return "\n".join(f"--- {repeat} {number}\n{why}" for number, why in sorted(failures.items())[:20])


def test_a_sample_of_mutated_tables_is_refused_by_a_typed_error_or_read_right():
    failures, answers = run(SEED, 80)
    assert not failures, reported(failures, SEED)
    assert answers["latest answered"] > 20
    assert answers["rows answered"] > 5
    assert answers["latest refused"] > 5


@pytest.mark.slow
def test_many_mutated_tables_are_refused_by_a_typed_error_or_read_right():
    failures, _ = run(SEED + 1, CASES)
    assert not failures, reported(failures, SEED + 1)
