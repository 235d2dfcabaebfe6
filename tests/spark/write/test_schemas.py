"""A table's schema under writes: it evolves, it is replaced, or the rows are refused with everything that is wrong."""

import datetime as dt
from pathlib import Path

import pytest

from airflow_delta.core.errors import InvalidTableDefinitionError, MetadataChangedError, SchemaMismatchError
from airflow_delta.spark.io.scan import read_table


def test_columns_that_only_the_rows_have_are_added_at_every_depth(spark, write_rows, reference_rows, latest):
    write_rows("SELECT 1 AS id, named_struct('x', 1) AS s, array(named_struct('k', 'a')) AS l")
    result = write_rows(
        """SELECT named_struct('Y', DATE'2013-01-01', 'X', 2) AS S, array(named_struct('n', 5)) AS l,
                  2 AS ID, 'new' AS extra""",
        merge_schema=True,
    )

    assert str(latest().schema) == ("struct<id:int,s:struct<x:int,Y:date>,l:array<struct<k:string,n:int>>,extra:string>")
    assert reference_rows() == [
        (1, {"x": 1, "Y": None}, [{"k": "a", "n": None}], None),
        (2, {"x": 2, "Y": dt.date(2013, 1, 1)}, [{"k": None, "n": 5}], "new"),
    ]
    assert (result.version, latest().commit_info.operation_parameters["canMergeSchema"]) == (1, True)
    rows = read_table(spark, latest()).where("extra IS NULL").collect()
    assert [(row.id, row.s.Y) for row in rows] == [(1, None)]


def test_rows_that_bring_nothing_new_change_no_metadata(write_rows, latest, table):
    write_rows("SELECT 1 AS id, 'a' AS name")
    write_rows("SELECT 2 AS id", merge_schema=True)

    assert latest().version == 1
    assert '"metaData"' not in Path(table, "_delta_log", f"{1:020}.json").read_text(encoding="utf-8")


def test_new_columns_of_a_mapped_table_get_ids_and_all_engines_read_them(write_rows, seen, latest):
    write_rows("SELECT 1 AS id, 'a' AS `first name`", properties={"delta.columnMapping.mode": "name"})
    write_rows("SELECT 2 AS id, 'b' AS `first name`, 7L AS `a b`", merge_schema=True)

    assert seen() == [(1, "a", None), (2, "b", 7)]
    columns = latest().schema.fields
    assert [column.metadata["delta.columnMapping.id"] for column in columns] == [1, 2, 3]
    assert latest().metadata.configuration["delta.columnMapping.maxColumnId"] == "3"
    assert all(column.metadata["delta.columnMapping.physicalName"] != column.name for column in columns)


def test_types_get_wider_where_the_table_lets_them(spark, write_rows, latest):
    write_rows("SELECT 1 AS id, CAST(1 AS SMALLINT) AS x", properties={"delta.enableTypeWidening": "true"})
    write_rows("SELECT 5000000000 AS id, 70000 AS x", merge_schema=True)

    assert str(latest().schema) == "struct<id:bigint,x:int>"
    assert "typeWidening" in latest().protocol.reader_features
    assert latest().schema.find("x").metadata["delta.typeChanges"] == [{"toType": "integer", "fromType": "short"}]
    assert read_table(spark, latest()).orderBy("id").collect() == [(1, 1), (5_000_000_000, 70_000)]


def test_a_number_too_large_for_its_column_fails_where_types_stay(write_rows, reference_rows):
    write_rows("SELECT 1 AS id")
    with pytest.raises(Exception, match="CAST_OVERFLOW"):
        write_rows("SELECT 5000000000 AS id", merge_schema=True)

    assert reference_rows() == [(1,)]


def test_every_difference_is_reported_at_once_also_with_schema_evolution(write_rows, latest):
    write_rows("SELECT 1 AS id, named_struct('x', 1) AS s, DATE'2013-01-01' AS day")
    with pytest.raises(SchemaMismatchError) as caught:
        write_rows("SELECT 'a' AS id, 5 AS s, true AS day, NULL AS never, 1 AS fine, 2 AS FINE", merge_schema=True)

    assert [line.partition(":")[0] for line in caught.value.differences] == ["fine", "id", "s", "day", "never"]
    with pytest.raises(SchemaMismatchError, match="in the source two columns have the name "):
        write_rows("SELECT 1 AS id, 2 AS id")
    with pytest.raises(InvalidTableDefinitionError, match="a b"):
        write_rows("SELECT 1 AS id, 2 AS `a b`", merge_schema=True)
    assert latest().version == 0


def test_a_partition_that_rows_with_new_columns_come_into_is_replaced(write_rows, reference_rows):
    write_rows("SELECT id, CAST(id % 2 AS STRING) AS p FROM range(4)", partition_by="p")
    write_rows("SELECT 9L AS id, '1' AS p, 'new' AS extra", mode="dynamic_overwrite", merge_schema=True)

    assert reference_rows() == [(0, "0", None), (2, "0", None), (9, "1", "new")]


def test_a_schema_that_grows_passes_appends_and_meets_another_change_of_it(write_rows, reference_rows, during_staging, latest):
    write_rows("SELECT 1 AS id, 'a' AS p")
    during_staging(lambda: write_rows("SELECT 2 AS id, 'b' AS p"))
    grown = write_rows("SELECT 3 AS id, 'c' AS p, true AS x", mode="replace_where", replace_where="p >= 'a'", merge_schema=True)
    during_staging(lambda: write_rows("SELECT 4 AS id, 1 AS y", merge_schema=True))
    with pytest.raises(MetadataChangedError):
        write_rows("SELECT 5 AS id, 1 AS z", merge_schema=True)

    assert reference_rows() == [(3, "c", True, None), (4, None, None, 1)]
    assert (grown.version, grown.read_version, grown.attempts, latest().version) == (2, 1, 2, 3)


def test_overwriting_the_schema_replaces_columns_and_partitioning_and_keeps_properties(write_rows, reference_rows, latest):
    write_rows("SELECT id, 'x' AS p FROM range(4)", partition_by="p", properties={"delta.checkpointInterval": "7", "mine": "1"})
    with pytest.raises(SchemaMismatchError):
        write_rows("SELECT 'one' AS id, 2 AS q", mode="overwrite")
    result = write_rows("SELECT 'one' AS id, 2 AS q", mode="overwrite", overwrite_schema=True, partition_by="Q")

    assert reference_rows() == [("one", 2)]
    assert (str(latest().schema), latest().partition_columns) == ("struct<id:string,q:int>", ("q",))
    assert latest().metadata.configuration == {"delta.checkpointInterval": "7", "mine": "1"}
    assert result.metrics["numRemovedFiles"] == 1
    assert latest().commit_info.operation_parameters["canOverwriteSchema"] is True
    assert reference_rows("1", "count(*)", version=0) == [(4,)]
    write_rows("SELECT 'two' AS id, 3 AS q", mode="overwrite", overwrite_schema=True)
    assert (reference_rows(), latest().partition_columns) == ([("two", 3)], ())


def test_overwriting_the_schema_of_a_mapped_clustered_table_uses_no_id_again(write_rows, seen, latest):
    properties = {"delta.columnMapping.mode": "name"}
    write_rows("SELECT 1 AS id, 'a' AS name", cluster_by="id", properties=properties)
    write_rows("SELECT 2 AS id, 3 AS other", mode="overwrite", overwrite_schema=True)

    assert seen() == [(2, 3)]
    ids = [field.metadata["delta.columnMapping.id"] for field in latest().schema.fields]
    assert ids == [3, 4]
    physical = latest().schema.find("id").metadata["delta.columnMapping.physicalName"]
    assert f'[["{physical}"]]' in latest().domains["delta.clustering"].configuration
    with pytest.raises(SchemaMismatchError):
        write_rows("SELECT 3 AS other", mode="overwrite", overwrite_schema=True)
    write_rows("SELECT 3 AS other, 4 AS p", mode="overwrite", overwrite_schema=True, partition_by="p")
    assert "delta.clustering" not in latest().domains
