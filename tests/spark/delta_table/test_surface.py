"""The Python API of delta-spark 4.4 compared with ours: every method by name, with its arguments in order."""

import inspect
from pathlib import Path

import pytest

from airflow_delta.spark import DeltaMergeBuilder, DeltaOptimizeBuilder, DeltaTable, DeltaTableBuilder, IdentityGenerator

CLASSES = {
    "DeltaTable": DeltaTable,
    "DeltaMergeBuilder": DeltaMergeBuilder,
    "DeltaOptimizeBuilder": DeltaOptimizeBuilder,
    "DeltaTableBuilder": DeltaTableBuilder,
}
_SPARK, _CLONED = ["sparkSession"], ["target", "isShallow", "replace", "properties"]
SURFACE = {
    "DeltaTable": {
        "addFeatureSupport": ["featureName"],
        "alias": ["aliasName"],
        "clone": _CLONED,
        "cloneAtTimestamp": ["timestamp", *_CLONED],
        "cloneAtVersion": ["version", *_CLONED],
        "convertToDelta": [*_SPARK, "identifier", "partitionSchema", "collectStats"],
        "create": _SPARK,
        "createIfNotExists": _SPARK,
        "createOrReplace": _SPARK,
        "delete": ["condition"],
        "detail": [],
        "dropFeatureSupport": ["featureName", "truncateHistory"],
        "forName": [*_SPARK, "tableOrViewName"],
        "forPath": [*_SPARK, "path", "hadoopConf"],
        "generate": ["mode"],
        "history": ["limit"],
        "isDeltaTable": [*_SPARK, "identifier"],
        "merge": ["source", "condition"],
        "optimize": [],
        "replace": _SPARK,
        "restoreToTimestamp": ["timestamp"],
        "restoreToVersion": ["version"],
        "toDF": [],
        "update": ["condition", "set"],
        "upgradeTableProtocol": ["readerVersion", "writerVersion"],
        "vacuum": ["retentionHours"],
    },
    "DeltaMergeBuilder": {
        "execute": [],
        "whenMatchedDelete": ["condition"],
        "whenMatchedUpdate": ["condition", "set"],
        "whenMatchedUpdateAll": ["condition"],
        "whenNotMatchedBySourceDelete": ["condition"],
        "whenNotMatchedBySourceUpdate": ["condition", "set"],
        "whenNotMatchedInsert": ["condition", "values"],
        "whenNotMatchedInsertAll": ["condition"],
        "withSchemaEvolution": [],
    },
    "DeltaOptimizeBuilder": {"executeCompaction": [], "executeZOrderBy": ["cols"], "where": ["partitionFilter"]},
    "DeltaTableBuilder": {
        "addColumn": ["colName", "dataType", "nullable", "generatedAlwaysAs", "generatedByDefaultAs", "comment"],
        "addColumns": ["cols"],
        "clusterBy": ["cols"],
        "comment": ["comment"],
        "execute": [],
        "location": ["location"],
        "partitionedBy": ["cols"],
        "property": ["key", "value"],
        "tableName": ["identifier"],
    },
}
"""Public methods of delta.tables, delta-spark 4.4: python/delta/tables.py of github.com/delta-io/delta."""

BEYOND = {("DeltaTable", "toDF"): ["columns", "where"]}
"""Arguments of ours that delta-spark does not have, and that may be given by position."""

METHODS = [(owner, method, arguments) for owner, methods in SURFACE.items() for method, arguments in methods.items()]


@pytest.mark.parametrize(("owner", "method", "arguments"), METHODS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_method_of_delta_spark_is_there_with_its_arguments(owner, method, arguments):
    ours = inspect.signature(getattr(CLASSES[owner], method)).parameters.values()
    by_position = [
        parameter.name for parameter in ours if parameter.kind is not parameter.KEYWORD_ONLY and parameter.name != "self"
    ]
    assert by_position == [*arguments, *BEYOND.get((owner, method), [])]
    page = Path(__file__).parents[3] / "docs" / "moving-from-delta-spark.md"
    assert f"`{method}`" in page.read_text()


def test_the_numbers_of_identity_columns_are_those_of_delta_spark():
    assert IdentityGenerator() == IdentityGenerator(start=1, step=1)


def test_what_delta_spark_may_leave_out_may_be_left_out_here():
    required = {"merge": 2, "forPath": 2, "convertToDelta": 2, "clone": 1, "cloneAtVersion": 2, "upgradeTableProtocol": 2}
    for method, number in required.items():
        given = inspect.signature(getattr(DeltaTable, method)).parameters
        assert len([name for name, found in given.items() if found.default is found.empty and name != "self"]) == number, method
