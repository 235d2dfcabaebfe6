"""docs/table-features.md: what it says is what the code does, and each cell has a test."""

import ast
import json
from functools import cache
from pathlib import Path

import pytest

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.errors import TableRedirectedError, UnsupportedReaderFeatureError, UnsupportedWriterFeatureError
from airflow_delta.core.table_features.feature import FEATURES, REDIRECTS
from airflow_delta.core.table_features.protocol import with_required
from airflow_delta.core.table_features.support import check_readable, check_writable
from airflow_delta.spark.supported_features import check_rows_writable, check_scannable
from docs.site.generate import feature_cells, feature_tests, generated

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "table-features.md"
COLUMN_USES = {
    "allowColumnDefaults": {"CURRENT_DEFAULT": "1"},
    "collations": {"__COLLATIONS": {"a": "spark.UTF8_LCASE"}},
    "collations-preview": {"__COLLATIONS": {"a": "spark.UTF8_LCASE"}},
    "generatedColumns": {"delta.generationExpression": "1"},
    "identityColumns": {"delta.identity.start": 1},
    "invariants": {"delta.invariants": "{}"},
    "typeWidening": {"delta.typeChanges": []},
    "typeWidening-preview": {"delta.typeChanges": []},
}
TYPE_USES = {
    "geospatial": "geometry(OGC:CRS84)",
    "geospatial-preview": "geometry(OGC:CRS84)",
    "timestampNanos": "timestamp_nanos",
    "timestampNtz": "timestamp_ntz",
    "variantType": "variant",
    "variantType-preview": "variant",
}
PROPERTY_USES = {
    "changeDataFeed": {"delta.enableChangeDataFeed": "true"},
    "checkConstraints": {"delta.constraints.c": "a > 0"},
    "columnMapping": {"delta.columnMapping.mode": "name"},
    "icebergCompatV1": {"delta.enableIcebergCompatV1": "true"},
    "icebergCompatV2": {"delta.enableIcebergCompatV2": "true"},
    "icebergCompatV3": {"delta.enableIcebergCompatV3": "true"},
    "icebergWriterCompatV1": {"delta.enableIcebergWriterCompatV1": "true"},
    "icebergWriterCompatV3": {"delta.enableIcebergWriterCompatV3": "true"},
    "inCommitTimestamp": {"delta.enableInCommitTimestamps": "true"},
    **{name: {f"delta.{name}": "{}"} for name in REDIRECTS},
}
CHECKS = (check_readable, check_writable, check_scannable, check_rows_writable)


def table_with(feature):
    """Protocol and metadata of a table that lists a feature and uses it."""
    listed = with_required([feature])
    column = {"name": "a", "type": TYPE_USES.get(feature, "long"), "nullable": True, "metadata": COLUMN_USES.get(feature, {})}
    schema = json.dumps({"type": "struct", "fields": [column]})
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=frozenset(name for name in listed if FEATURES[name].for_readers),
        writer_features=listed,
    )
    return protocol, Metadata(id="x", schema_string=schema, configuration=PROPERTY_USES.get(feature, {}))


@cache
def functions_in(file):
    return {node.name for node in ast.parse((ROOT / "tests" / file).read_text()).body if isinstance(node, ast.FunctionDef)}


def test_the_table_of_features_is_that_of_the_code():
    page = PAGE.read_text()
    assert generated(page) == page, "run python docs/site/generate.py"
    assert page.count("\n| `") > 2 * len(FEATURES)


def test_every_feature_has_a_test_for_each_of_its_cells():
    tests = feature_tests()
    assert tests.keys() == FEATURES.keys()
    assert {name: len(held) for name, held in tests.items()} == dict.fromkeys(FEATURES, 4)


def test_every_test_that_the_page_names_exists():
    named = {test for held in feature_tests().values() for test in held}
    places = {test: test.split("::") for test in named}
    assert sorted(test for test, (file, function) in places.items() if function not in functions_in(file)) == []
    assert len(named) > 30


@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_a_table_is_refused_exactly_where_a_cell_says_no(feature):
    protocol, metadata = table_with(feature)
    assert FEATURES[feature].in_use(metadata)
    for cell, check in zip(feature_cells(feature), CHECKS, strict=True):
        if cell != "no":
            check("t", protocol, metadata)
            continue
        with pytest.raises((UnsupportedReaderFeatureError, UnsupportedWriterFeatureError, TableRedirectedError)) as caught:
            check("t", protocol, metadata)
        assert feature in (caught.value.attributes().get("features") or [caught.value.attributes().get("feature")])
