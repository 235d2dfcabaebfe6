"""A process that is killed anywhere in an operation: the table reads as before or after, a repeated call finishes the work."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.core.faults.scenarios import SCENARIOS, Judged, discard

PROJECT = Path(__file__).parents[3]
IN_SAMPLE = 2  # kills of each scenario
names = [scenario.name for scenario in SCENARIOS]


@pytest.fixture(scope="module")
def run_killed():
    """Runs a scenario on a root and kills it before the event of this number; its exit status."""
    command = [sys.executable, "-m", "tests.core.faults.killed_runs"]
    with subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def run(scenario, root, number=-1):
            request = {"scenario": scenario.name, "root": str(root), "number": number, "count": f"{root}.count"}
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield run
        process.stdin.close()


@pytest.fixture
def judged(request, tmp_path):
    return Judged(next(scenario for scenario in SCENARIOS if scenario.name == request.param), tmp_path)


def events(judged, run_killed):
    """How many places there are to be killed at."""
    root = judged.copy("counted")
    assert run_killed(judged.scenario, root) == 0
    return int(Path(f"{root}.count").read_text())


def kill(judged, number, run_killed):
    root = judged.copy("killed")
    assert run_killed(judged.scenario, root, number) == -signal.SIGKILL
    try:
        judged.check_disturbed(root)
        judged.check_finished(root)
    except Exception as error:
        raise AssertionError(f"{judged.scenario.name} killed before event {number}: {error}") from error
    discard(root)


@pytest.mark.parametrize("judged", names, indirect=True)
def test_killed_at_some_points_the_table_reads_as_before_or_after(judged, run_killed):
    places = range(events(judged, run_killed))
    for number in Random(judged.scenario.name).sample(places, min(len(places), IN_SAMPLE)):  # seeded by a text
        kill(judged, number, run_killed)


@pytest.mark.slow
@pytest.mark.parametrize("judged", names, indirect=True)
def test_killed_at_any_point_the_table_reads_as_before_or_after(judged, run_killed):
    for number in range(events(judged, run_killed)):
        kill(judged, number, run_killed)
