"""The names that scripts know: those of delta-spark 4.4's Python package."""

import inspect
import subprocess
import sys

import pytest

import airflow_delta.spark as names_for_scripts
from airflow_delta.spark import DeltaMergeBuilder, DeltaOptimizeBuilder, DeltaTable, DeltaTableBuilder, IdentityGenerator

METHODS = {
    DeltaTable: {
        "toDF": (),
        "alias": ("aliasName",),
        "generate": ("mode",),
        "delete": ("condition",),
        "update": ("condition", "set"),
        "merge": ("source", "condition"),
        "vacuum": ("retentionHours",),
        "history": ("limit",),
        "detail": (),
        "convertToDelta": ("sparkSession", "identifier", "partitionSchema"),
        "forPath": ("sparkSession", "path", "hadoopConf"),
        "forName": ("sparkSession", "tableOrViewName"),
        "create": ("sparkSession",),
        "createIfNotExists": ("sparkSession",),
        "replace": ("sparkSession",),
        "createOrReplace": ("sparkSession",),
        "isDeltaTable": ("sparkSession", "identifier"),
        "upgradeTableProtocol": ("readerVersion", "writerVersion"),
        "addFeatureSupport": ("featureName",),
        "dropFeatureSupport": ("featureName", "truncateHistory"),
        "restoreToVersion": ("version",),
        "restoreToTimestamp": ("timestamp",),
        "optimize": (),
        "clone": ("target", "isShallow", "replace", "properties"),
        "cloneAtVersion": ("version", "target", "isShallow", "replace", "properties"),
        "cloneAtTimestamp": ("timestamp", "target", "isShallow", "replace", "properties"),
    },
    DeltaMergeBuilder: {
        "whenMatchedUpdate": ("condition", "set"),
        "whenMatchedUpdateAll": ("condition",),
        "whenMatchedDelete": ("condition",),
        "whenNotMatchedInsert": ("condition", "values"),
        "whenNotMatchedInsertAll": ("condition",),
        "whenNotMatchedBySourceUpdate": ("condition", "set"),
        "whenNotMatchedBySourceDelete": ("condition",),
        "withSchemaEvolution": (),
        "execute": (),
    },
    DeltaTableBuilder: {
        "tableName": ("identifier",),
        "location": ("location",),
        "comment": ("comment",),
        "addColumn": ("colName", "dataType", "nullable", "generatedAlwaysAs", "generatedByDefaultAs", "comment"),
        "addColumns": ("cols",),
        "partitionedBy": ("cols",),
        "clusterBy": ("cols",),
        "property": ("key", "value"),
        "execute": (),
    },
    DeltaOptimizeBuilder: {
        "where": ("partitionFilter",),
        "executeCompaction": (),
        "executeZOrderBy": ("cols",),
    },
    IdentityGenerator: {"__init__": ("self", "start", "step")},
}


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, methods in METHODS.items() for name in methods])
def test_a_method_takes_what_delta_sparks_takes_in_that_order(owner, name):
    found = [
        parameter
        for parameter in inspect.signature(getattr(owner, name)).parameters
        if parameter != "self" or name == "__init__"
    ]
    assert tuple(found[: len(METHODS[owner][name])]) == METHODS[owner][name]


def test_every_name_for_scripts_is_there():
    assert all(getattr(names_for_scripts, name) for name in names_for_scripts.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        names_for_scripts.nothing  # noqa: B018 - looking is the test


def test_the_room_can_be_entered_where_there_is_no_pyspark():
    code = "import sys; sys.modules['pyspark'] = None; import airflow_delta.spark"
    subprocess.run([sys.executable, "-c", code], check=True)
