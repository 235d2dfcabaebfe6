"""Hostile tables through Spark's statements: nothing of the neighbor or of the environment is read, written or sent."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attacks.attacks import ATTACKS

PROJECT = Path(__file__).parents[2]
GROUPS = 6

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("group", range(GROUPS))
def test_no_attack_reaches_out_or_ends_in_an_error_of_another_kind(tmp_path, neighbor, sink, group):
    attacks = list(ATTACKS)[group::GROUPS]
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.attacks.spark_probe", str(tmp_path), sink.address, *attacks]
    environment = os.environ | {"AWS_EC2_METADATA_DISABLED": "true"}
    ended = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    results = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    assert ended.returncode == 0, f"the process ended behind {results[-1:]}\n{ended.stderr[-3_000:]}"
    assert neighbor.events() == []
    assert sink.events() == []
    assert [result for result in results if "failure" in result] == []
