"""Every statement records the changes that a comparison of the table before and after it shows."""

import shutil
from pathlib import Path

import pytest

from airflow_delta.core.errors import AppendOnlyTableError
from airflow_delta.core.statements import (
    UPSERT,
    MatchedDelete,
    MatchedUpdate,
    MergeStatement,
    NotMatchedInsert,
    OptimizeStatement,
    SqlSource,
    WriteMode,
    WriteStatement,
)
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.write.write import write
from tests.slow_cases import slow_after

DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture
def table20(recorded):
    """Rows 0 to 19 in files of ten rows, of partitions p0 and p1 where they count."""

    def make(properties=None, *, partitioned=False):
        made = recorded(properties, partitioned=partitioned)
        for first in (0, 10):
            made.insert(f"SELECT id, CONCAT('p', id % 2) AS p, id AS v FROM range({first}, {first + 10}, 1, 1)")
        return made

    return make


@pytest.mark.parametrize("partitioned", slow_after(1, [True, False]))
def test_changed_rows_of_rewritten_files_are_recorded_beside_them(table20, partitioned):
    table = table20(partitioned=partitioned)

    result = table.update("id IN (3, 4, 15)", v="v + 100")
    assert (sum(table.check(table.by_spark, table.by_deltalake).values()), result.metrics["numAddedChangeFiles"]) == (
        6,
        len(table.change_files()),
    )

    table.delete("v = 5 OR id > 17")
    assert sum(table.check(table.by_deltalake).values()) == 3
    source = "SELECT id, CONCAT('p', id % 2) AS p, id * 10 AS v FROM range(8, 12) UNION ALL SELECT 50, 'p0', 500"
    result = table.merge(source, [MatchedDelete(condition="source.id = 9"), *UPSERT])
    assert sorted(kind for *_, kind in table.check(table.by_spark, table.by_deltalake).elements()) == [
        "delete",
        "insert",
        *["update_postimage"] * 3,
        *["update_preimage"] * 3,
    ]
    assert result.metrics["numTargetChangeFilesAdded"] == len(table.change_files()) > 0
    assert all('"dataChange":false' in line and '"path":"_change_data/' in line for line in table.change_files())


def test_a_row_that_moves_to_another_partition_leaves_the_old_one_and_is_new_in_the_other(table20):
    table = table20(partitioned=True)
    table.update("id < 3", p="'p7'", v="v - 1")
    assert sum(table.check(table.by_spark, table.by_deltalake).values()) == 6
    assert sorted(line.partition('"partitionValues":')[2][:10] for line in table.change_files()) == [
        '{"p":"p0"}',
        '{"p":"p1"}',
        '{"p":"p7"}',
    ]


@pytest.mark.slow
def test_appends_whole_files_and_moved_rows_need_no_change_files(spark, table20):
    table = table20(partitioned=True)
    assert table.check() == table.by_spark(table.log.refresh().version)
    for where in ("p = 'p1' AND id < 10", "id > 9 AND p = 'p1'"):
        table.delete(where)
        assert sum(table.check(table.by_spark, table.by_deltalake).values()) == 5
        assert table.change_files() == []
    table.merge("SELECT 77 AS id, 'p0' AS p, 7 AS v", [NotMatchedInsert()])
    assert (sum(table.check().values()), table.change_files()) == (1, [])
    assert optimize(spark, table.log, OptimizeStatement(table=table.uri)).committed
    assert (table.check(table.by_spark), table.change_files()) == ({}, [])
    overwrite = WriteStatement(
        table=table.uri, source=SqlSource("SELECT 900 AS id, 'p0' AS p, 7 AS v"), mode=WriteMode.OVERWRITE
    )
    write(spark, table.log, overwrite)
    assert (sum(table.check(table.by_spark).values()), table.change_files()) == (12, [])


def test_a_merge_that_takes_whole_files_and_changes_rows_tells_of_all_of_them(table20):
    table = table20(partitioned=True)
    clauses = [MatchedDelete(condition="target.p = 'p0'"), MatchedUpdate(assignments={"v": "-1"}), NotMatchedInsert()]
    table.merge("SELECT id, 'p0' AS p, id AS v FROM range(0, 9) UNION ALL SELECT 60, 'p3', 1", clauses)
    assert sum(table.check(table.by_spark, table.by_deltalake).values()) == 5 + 2 * 4 + 1


def test_a_row_deleted_by_several_matches_is_recorded_once(table20):
    table = table20()
    table.merge("SELECT id % 3 AS id, 'x' AS p, id AS v FROM range(9)", [MatchedDelete()])
    assert sum(table.check(table.by_spark, table.by_deltalake).values()) == 3


def test_deletion_vectors_tell_of_deletes_and_change_files_of_updates(table20):
    table = table20(DELETION_VECTORS)
    table.delete("id % 3 = 0")
    assert (sum(table.check(table.by_spark).values()), table.change_files()) == (7, [])
    table.update("id IN (1, 2, 13)", v="v + 100", p="'q'")
    assert (sum(table.check(table.by_spark).values()), len(table.change_files())) == (6, 3)
    clauses = [MatchedDelete(condition="source.id = 4"), *UPSERT]
    table.merge("SELECT id, 'm' AS p, id * 10 AS v FROM range(4, 6) UNION ALL SELECT 70, 'm', 1", clauses)
    assert sum(table.check(table.by_spark).values()) == 4
    table.merge("SELECT 7 AS id UNION ALL SELECT 7 UNION ALL SELECT 8", [MatchedDelete()])
    assert (sum(table.check(table.by_spark).values()), table.change_files()) == (2, [])


def test_the_files_of_a_mapped_table_are_found_by_its_physical_columns(table20):
    table = table20({"delta.columnMapping.mode": "id"}, partitioned=True)
    table.log.alter().rename_column("v", "w")
    table.update("id = 3", w="w + 100")
    feed = table.log.changes(table.log.refresh().version).read_all().sort_by("_change_type")
    assert feed.select(["id", "p", "w", "_change_type"]).to_pydict() == {
        "id": [3, 3],
        "p": ["p1", "p1"],
        "w": [103, 3],
        "_change_type": ["update_postimage", "update_preimage"],
    }


def test_nothing_stays_behind_when_nothing_is_committed(table20):
    table = table20()
    table.log.alter().set_properties({"delta.appendOnly": "true"})
    files = sorted(Path(table.uri).rglob("*.parquet"))
    with pytest.raises(AppendOnlyTableError):  # raised at the commit, when all is written
        table.merge("SELECT id, 'm' AS p, 1L AS v FROM range(18, 22)", UPSERT)
    assert sorted(Path(table.uri).rglob("*.parquet")) == files
    assert not (Path(table.uri) / "_change_data").exists()


def test_a_merge_that_brings_columns_tells_of_them(spark, table20):
    table = table20({"delta.enableRowTracking": "true"})
    source = SqlSource("SELECT id, 'm' AS p, id AS v, 'note' AS note FROM range(19, 21)")
    statement = MergeStatement(
        table=table.uri, source=source, on="target.id = source.id", clauses=UPSERT, schema_evolution=True
    )
    merge(spark, table.log, statement)
    rows = table.log.changes(table.log.refresh().version).read_all().select(["id", "note", "_change_type"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows if row["note"]) == [
        (19, "note", "update_postimage"),
        (20, "note", "insert"),
    ]
    assert [row["id"] for row in rows if row["note"] is None] == [19]


def test_a_replaced_range_that_cuts_files_tells_of_old_and_new_rows(spark, table20):
    for properties in ({}, DELETION_VECTORS):
        table = table20(properties)
        source = SqlSource("SELECT id, 'new' AS p, id AS v FROM range(5, 30)")
        write(
            spark,
            table.log,
            WriteStatement(table=table.uri, source=source, mode=WriteMode.REPLACE_WHERE, replace_where="id > 4"),
        )
        version = table.log.refresh().version
        kinds = sorted(kind for *_, kind in table.by_core(version).elements())
        assert kinds == ["delete"] * 15 + ["insert"] * 25
        assert table.by_spark(version) == table.by_core(version)
        shutil.rmtree(table.uri)
