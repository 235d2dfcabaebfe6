"""The change feeds that Delta Lake 4.4.0 on Spark 4.2.0 read from its own tables, against ours."""

import importlib.util
import json

import pytest

from airflow_delta.core import DeltaLog
from tests.golden_tables import TABLES

EXPECTED = {path.parent.name: json.loads(path.read_text()) for path in TABLES.glob("*/expected.json")}
FEEDS = [(name, position) for name in sorted(EXPECTED) for position in range(len(EXPECTED[name].get("cdf", ())))]


@pytest.fixture(scope="module")
def canon():
    spec = importlib.util.spec_from_file_location("canon", TABLES / "canon.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_feeds_with_and_without_deletion_vectors():
    assert {name for name, _ in FEEDS} == {"cdf", "cdf_dv"}


@pytest.mark.parametrize(("name", "position"), FEEDS)
def test_the_changes_are_those_that_spark_read(name, position, canon):
    feed = EXPECTED[name]["cdf"][position]
    changes = DeltaLog.for_table(str(TABLES / name / "table")).changes(feed["startingVersion"], feed["endingVersion"])
    rows = changes.read_all().select(feed["columns"])
    lines = sorted(canon.dumps(list(row.values())) for row in rows.to_pylist())
    assert len(lines) == feed["row_count"]
    assert lines == sorted(map(canon.dumps, feed["rows"]))
