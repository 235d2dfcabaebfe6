"""The log benchmark itself: it runs, both sides give equal answers, and different ones would be reported."""

import dataclasses

import pytest

from benchmarks.log_core import __main__ as log_core
from benchmarks.log_core.case import Size
from benchmarks.log_core.measure import Outcome, Run, measure
from benchmarks.log_core.reading import CASES

SIZE = Size(files=2000, commits=20)
GENEROUS = {"time": 1000.0, "memory": None}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_sides_of_each_case_find_the_same(case, tmp_path):
    outcome = measure(dataclasses.replace(case, **GENEROUS), case.make(tmp_path, SIZE), runs=1)
    assert outcome.is_met, outcome.lines()
    assert outcome.ours[0].answer[0] > 0
    assert outcome.ours[0].peak > 1 << 20


def test_different_answers_miss_whatever_the_time():
    case = dataclasses.replace(CASES[0], **GENEROUS)
    ours, theirs = (Run(seconds=1.0, cpu=1.0, peak=1, answer=[answer]) for answer in (1, 2))
    outcome = Outcome(case=case, ours=(ours,), theirs=(theirs,))
    assert not outcome.is_met
    assert any("DIFFERENT" in line for line in outcome.lines())
    assert Outcome(case=case, ours=(ours,), theirs=(ours,)).is_met


def test_the_command_line_prints_ratios_beside_their_targets(capsys):
    log_core.main(["--case", "many-commits", "--runs", "1", "--commits", "5"])
    printed = capsys.readouterr().out
    assert "times theirs (target 0.5)" in printed
