"""Processes in which operations are killed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def run_killed():
    """Runs a scenario on a root and kills it before the event with this number; returns its exit status."""
    command = [sys.executable, "-m", "tests.core.faults.killed_runs"]
    with subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def run(scenario, root, number=-1):
            request = {"scenario": scenario.name, "root": str(root), "number": number, "count": f"{root}.count"}
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield run
        process.stdin.close()
