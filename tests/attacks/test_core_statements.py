"""Hostile tables without Spark: nothing outside is accessed, all errors are typed, time and memory are bounded."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attacks.attacks import ATTACKS
from tests.attacks.catalog.files import MANY_ROWS, ROWS

PROJECT = Path(__file__).parents[2]
CPU_SECONDS, MEBIBYTES = 2.0, 300
SMALL = 1_000_000  # bytes; the limits hold for files below
ROWS_PER_SECOND = 5_000_000  # per CPU second; reading valid rows takes time per row, however small the file
GROUPS = 8
QUICK = 24  # the quick test runs one in 24 attacks


@pytest.mark.parametrize(
    "attacks",
    [
        pytest.param(list(ATTACKS)[::QUICK], id="some"),
        *(pytest.param(list(ATTACKS)[group::GROUPS], id=f"group {group}", marks=pytest.mark.slow) for group in range(GROUPS)),
    ],
)
def test_no_attack_reaches_out_or_costs_much_or_ends_in_an_error_of_another_kind(tmp_path, neighbor, sink, attacks):
    results = probe(tmp_path, sink, attacks)
    assert neighbor.events() == []
    assert sink.events() == []
    assert [result for result in results if "failure" in result] == []
    costly = [result for result in results if result["size"] < SMALL and _is_costly(result)]
    assert costly == []


def _is_costly(result):
    hands_out_rows = result["attack"] == MANY_ROWS and result["statement"] in {"read", "clone", "convert"}
    seconds = ROWS / ROWS_PER_SECOND if hands_out_rows else CPU_SECONDS
    return result["cpu"] > seconds or result["mib"] > MEBIBYTES


def probe(root, sink, attacks):
    """The outcomes of the statements, run in a separate process."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.attacks.probe", str(root), sink.address, *attacks]
    environment = os.environ | {
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "MALLOC_ARENA_MAX": "2",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    ended = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    assert ended.returncode == 0, f"the process ended behind {lines[-1:]}\n{ended.stderr[-3_000:]}"
    return [line for line in lines if "statement" in line]


def test_the_suite_has_at_least_sixty_hostile_tables():
    assert len(ATTACKS) >= 60


def test_the_watch_notices_a_file_that_is_read_and_a_connection_that_is_made(tmp_path, neighbor, sink):
    (tmp_path / "outside" / "secret.txt").read_text()
    assert any("secret.txt" in event for event in neighbor.events())
    host, port = sink.address.split(":")
    socket.create_connection((host, int(port))).close()
    heard = []
    while not heard:
        heard = sink.events()
    assert len(heard) == 1
