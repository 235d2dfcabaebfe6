"""A process killed anywhere in an operation: the table reads as before or after, and a repeated call finishes the work."""

import signal
from pathlib import Path
from random import Random

import pytest

from tests.core.faults.scenarios import SCENARIOS, ScenarioCheck, discard

IN_SAMPLE = 2  # kills of each scenario
names = [scenario.name for scenario in SCENARIOS]


@pytest.fixture
def scenario_check(request, tmp_path):
    return ScenarioCheck(next(scenario for scenario in SCENARIOS if scenario.name == request.param), tmp_path)


def events(scenario_check, run_killed):
    """The number of events before which the process can be killed."""
    root = scenario_check.copy("counted")
    assert run_killed(scenario_check.scenario, root) == 0
    return int(Path(f"{root}.count").read_text())


def kill(scenario_check, number, run_killed):
    root = scenario_check.copy("killed")
    assert run_killed(scenario_check.scenario, root, number) == -signal.SIGKILL
    try:
        scenario_check.check_disturbed(root)
        scenario_check.check_finished(root)
    except Exception as error:
        raise AssertionError(f"{scenario_check.scenario.name} killed before event {number}: {error}") from error
    discard(root)


@pytest.mark.parametrize("scenario_check", names[::6], indirect=True)
def test_killed_at_some_points_the_table_reads_as_before_or_after(scenario_check, run_killed):
    places = range(events(scenario_check, run_killed))
    for number in Random(scenario_check.scenario.name).sample(places, min(len(places), IN_SAMPLE)):  # seeded with a string
        kill(scenario_check, number, run_killed)


@pytest.mark.slow
@pytest.mark.parametrize("scenario_check", names, indirect=True)
def test_killed_at_any_point_the_table_reads_as_before_or_after(scenario_check, run_killed):
    for number in range(events(scenario_check, run_killed)):
        kill(scenario_check, number, run_killed)
