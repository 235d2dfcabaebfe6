"""The checksum of ``_last_checkpoint``: the protocol's own example, and what Delta-Spark wrote."""

import json
import sys

import pytest

from airflow_delta.core.log.json_checksum import canonical_form, json_checksum
from tests.golden_tables import TABLES

EXAMPLE = '{"k0":"\'v 0\'", "checksum": "x", "k1":{"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}'


def test_the_example_of_the_protocol_has_the_checksum_that_it_says():
    assert json_checksum(json.loads(EXAMPLE)) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


def test_paths_are_joined_escaped_and_sorted_by_their_bytes():
    document = {"b": {"y": None, "x": "https://delta.io/é"}, "a": 10, "c": [True, "a-._~"]}
    assert canonical_form(document) == (
        '"a"=10,"b"+"x"="https%3A%2F%2Fdelta.io%2F%C3%A9","b"+"y"=null,"c"+0=true,"c"+1="a-._~"'
    )


@pytest.mark.parametrize("hint", sorted(TABLES.glob("*/table/_delta_log/_last_checkpoint")), ids=lambda path: path.parts[-4])
def test_hints_of_delta_spark_carry_the_same_checksum(hint):
    document = json.loads(hint.read_text())
    assert json_checksum(document) == document["checksum"]


def calls_of(work, *arguments):
    """How many functions are called, and generators resumed."""
    events = []
    sys.setprofile(lambda frame, event, argument: events.append(event))
    try:
        work(*arguments)
    finally:
        sys.setprofile(None)
    return events.count("call")


def test_a_leaf_takes_no_more_calls_for_lying_deep():
    leaves = [1] * 1_000
    deep = leaves
    for _ in range(100):
        deep = [deep]
    assert calls_of(canonical_form, {"a": deep}) - calls_of(canonical_form, {"a": leaves}) < len(leaves)
