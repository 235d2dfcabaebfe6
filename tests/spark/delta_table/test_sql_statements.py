"""``sql`` with Delta's statements: each one is run once, on a table, and its answer has delta-spark's columns."""

import re
from pathlib import Path

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, SchemaMismatchError, TableExistsError, TableNotFoundError
from airflow_delta.spark import sql


@pytest.fixture
def run(spark):
    """Run a text; the answer as a list of dicts."""
    return lambda text, **options: [row.asDict(recursive=True) for row in sql(spark, text, **options).collect()]


def operations(table):
    return [entry.commit_info.operation for entry in reversed(DeltaLog.for_table(table).history())]


@pytest.mark.slow
def test_rows_are_inserted_updated_deleted_merged_and_restored(spark, run, table, reference_rows):
    t = f"delta.`{table}`"
    assert run(f"CREATE TABLE {t} (id BIGINT, name STRING, n INT) USING delta TBLPROPERTIES (delta.appendOnly = false)") == []
    with pytest.raises(TableExistsError):
        run(f"CREATE TABLE {t} (id BIGINT) USING delta")
    assert run(f"INSERT INTO {t} VALUES (1, 'wren', 9), (2, 'owl', 480)") == []
    run(f"INSERT INTO {t} (n, id) SELECT id * 10, id FROM (SELECT id + 3 AS id FROM {t}) AS x")
    run(f"INSERT INTO {t} BY NAME SELECT 7 AS n, 'kite' AS name, 6L AS id")
    assert reference_rows() == [(1, "wren", 9), (2, "owl", 480), (4, None, 40), (5, None, 50), (6, "kite", 7)]
    with pytest.raises(SchemaMismatchError, match=r"the rows have 2 columns, and the table has 3: \(id, name, n\)"):
        run(f"INSERT INTO {t} SELECT 1, 'x'")
    assert run(f"UPDATE {t} AS b SET b.n = b.n + 1, name = upper(b.name) WHERE b.id <= 2") == [{"num_affected_rows": 2}]
    assert run(f"DELETE FROM {t} b WHERE b.name IS NULL") == [{"num_affected_rows": 2}]
    merged = run(
        f"""
        MERGE INTO {t} t USING {t} VERSION AS OF 2 AS s ON t.id = s.id
        WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *
        """
    )
    assert merged == [{"num_affected_rows": 4, "num_updated_rows": 0, "num_deleted_rows": 2, "num_inserted_rows": 2}]
    assert reference_rows() == [(4, None, 40), (5, None, 50), (6, "kite", 7)]
    run(f"INSERT INTO {t} REPLACE WHERE n >= 40 SELECT 9, 'rook', 90")
    assert reference_rows() == [(6, "kite", 7), (9, "rook", 90)]
    [restored] = run(f"RESTORE TABLE {t} TO VERSION AS OF 1")
    assert restored["num_of_files_after_restore"] == len(DeltaLog.for_table(table).snapshot(1).files())
    assert reference_rows() == [(1, "wren", 9), (2, "owl", 480)]
    run(f"INSERT OVERWRITE {t} TABLE {t} VERSION AS OF 2")
    assert [row[0] for row in reference_rows()] == [1, 2, 4, 5]
    assert operations(table) == [
        *("CREATE TABLE", "WRITE", "WRITE", "WRITE", "UPDATE", "DELETE", "MERGE", "WRITE", "RESTORE", "WRITE"),
    ]
    assert [row["version"] for row in run(f"DESCRIBE HISTORY {t} LIMIT 2")] == [9, 8]
    with pytest.raises(TableNotFoundError):
        run(f"INSERT INTO delta.`{table}/no` BY NAME SELECT 1 AS id")


def test_an_insert_by_position_evolves_the_schema_by_the_columns_behind_the_tables(run, table, reference_rows):
    t = f"delta.`{table}`"
    run(f"CREATE TABLE {t} (id BIGINT, name STRING) USING delta")
    run(f"INSERT WITH SCHEMA EVOLUTION INTO {t} SELECT 1L AS name, 'wren' AS id, 9 AS n")
    assert reference_rows() == [(1, "wren", 9)]
    with pytest.raises(SchemaMismatchError, match=r"the rows have 2 columns, and the table has 3: \(id, name, n\)"):
        run(f"INSERT WITH SCHEMA EVOLUTION INTO {t} SELECT 2L, 'owl'")


def test_an_insert_by_position_places_the_members_of_structs_by_position_too(run, table, reference_rows):
    t = f"delta.`{table}`"
    run(f"CREATE TABLE {t} (id BIGINT, s STRUCT<a: INT, b: INT>, l ARRAY<STRUCT<x: STRING>>) USING delta")
    run(f"INSERT INTO {t} VALUES (1, struct(10, 20), array(struct('v')))")
    run(f"INSERT INTO {t} SELECT 2L, named_struct('b', 30, 'a', 40), NULL")
    assert reference_rows() == [(1, {"a": 10, "b": 20}, [{"x": "v"}]), (2, {"a": 30, "b": 40}, None)]
    with pytest.raises(SchemaMismatchError, match=r"s: 1 members in the source, and the table has \(a, b\)"):
        run(f"INSERT INTO {t} SELECT 3L, named_struct('b', 30), NULL")


def test_a_table_is_defined_altered_and_described(run, table):
    t = f"delta.`{table}`"
    run(
        f"""
        CREATE OR REPLACE TABLE {t} (
            id BIGINT NOT NULL COMMENT 'number', at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)),
            n INT DEFAULT 3, m MAP<STRING, ARRAY<INT>>
        ) USING delta COMMENT 'birds' PARTITIONED BY (day)
        TBLPROPERTIES (delta.columnMapping.mode = 'name', delta.enableTypeWidening = true)
        """
    )
    for change in (
        "ADD COLUMNS (note STRING AFTER id, list ARRAY<INT> FIRST)",
        "RENAME COLUMN note TO remark",
        "DROP COLUMNS (m, list)",
        "ALTER COLUMN n TYPE BIGINT",
        "ALTER COLUMN remark COMMENT 'what people say'",
        "ALTER COLUMN id DROP NOT NULL",
        "ALTER COLUMN n SET DEFAULT 4",
        "ALTER COLUMN n AFTER id",
        "SET TBLPROPERTIES ('owner' = 'birds', delta.checkpointInterval = 5)",
        "UNSET TBLPROPERTIES IF EXISTS (owner, nothing)",
        "ADD CONSTRAINT few CHECK (n < 10)",
    ):
        assert run(f"ALTER TABLE {t} {change}") == []
    run(f"INSERT INTO {t} (id, at) VALUES (1, TIMESTAMP'2026-01-02 03:00:00')")
    assert run(f"SELECT id, n, remark, string(day) AS day FROM {t}") == [{"id": 1, "n": 4, "remark": None, "day": "2026-01-02"}]
    assert run(f"SHOW COLUMNS IN {t}") == [{"col_name": name} for name in ("id", "n", "remark", "at", "day")]
    shown = {row["key"]: row["value"] for row in run(f"SHOW TBLPROPERTIES {t}")}
    assert shown["delta.checkpointInterval"] == "5"
    assert shown["delta.constraints.few"] == "n < 10"
    assert "owner" not in shown
    assert run(f"SHOW TBLPROPERTIES {t} ('delta.checkpointInterval')") == [{"key": "delta.checkpointInterval", "value": "5"}]
    [missing] = run(f"SHOW TBLPROPERTIES {t} (owner)")
    assert missing["value"].endswith("does not have property: owner")
    run(f"COMMENT ON TABLE {t} IS 'all birds'")
    [detail] = run(f"DESCRIBE DETAIL {t}")
    assert (detail["description"], detail["partitionColumns"], detail["numFiles"]) == ("all birds", ["day"], 1)


def test_files_are_compacted_purged_vacuumed_listed_and_cloned(spark, run, table, tmp_path):
    t = f"delta.`{table}`"
    run(
        f"CREATE TABLE {t} USING delta PARTITIONED BY (p) TBLPROPERTIES (delta.enableDeletionVectors = true) "
        "AS SELECT id, id % 2 AS p, id AS z FROM range(20)"
    )
    run(f"INSERT INTO {t} SELECT id, id % 2, id FROM range(20, 40)")
    before = set(Path(table).rglob("*.parquet"))
    [optimized] = run(f"OPTIMIZE {t} WHERE p = 1")
    assert optimized["metrics"]["numFilesAdded"] == 1
    assert optimized["metrics"]["numFilesRemoved"] > 1
    assert run(f"OPTIMIZE {t} ZORDER BY (z, id)")[0]["metrics"]["numFilesAdded"] == 1  # of the other partition
    assert run(f"DELETE FROM {t} WHERE id < 10") == [{"num_affected_rows": 10}]
    assert run(f"REORG TABLE {t} APPLY (PURGE)")[0]["metrics"]["numFilesRemoved"] == 2
    assert [row["id"] for row in run(f"SELECT id FROM {t} WHERE id < 12 ORDER BY id")] == [10, 11]
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        found = {row["path"].rpartition("/")[2] for row in run(f"VACUUM {t} RETAIN 0 HOURS DRY RUN")}
        assert {path.name for path in before} <= found
        [vacuumed] = run(f"VACUUM {t} RETAIN 0 HOURS")
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert vacuumed["path"].endswith("/table")
    assert not before & set(Path(table).rglob("*.parquet"))
    assert [row["id"] for row in run(f"SELECT id FROM {t} ORDER BY id")] == list(range(10, 40))

    clone = tmp_path / "clone"
    [cloned] = run(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE {t} TBLPROPERTIES (kept = 'yes')")
    assert (cloned["source_num_of_files"], cloned["num_copied_files"]) == (2, 0)
    assert run(f"SHOW TBLPROPERTIES delta.`{clone}` (kept)") == [{"key": "kept", "value": "yes"}]
    [copied] = run(f"CREATE OR REPLACE TABLE delta.`{clone}` DEEP CLONE {t}")
    assert (copied["num_copied_files"], copied["num_removed_files"]) == (2, 2)
    assert copied["copied_files_size"] == copied["source_table_size"] == copied["removed_files_size"] > 0
    assert [row["id"] for row in run(f"SELECT id FROM delta.`{clone}` ORDER BY id")] == list(range(10, 40))
    run(f"ALTER TABLE {t} SET TBLPROPERTIES (delta.enableDeletionVectors = false)")
    assert run(f"GENERATE symlink_format_manifest FOR TABLE {t}") == []
    assert (Path(table) / "_symlink_format_manifest" / "p=0" / "manifest").is_file()


def test_a_directory_is_converted_and_files_are_loaded_once(spark, run, table, tmp_path, reference_rows):
    spark.range(3).write.parquet(table)
    assert run(f"CONVERT TO DELTA parquet.`{table}`") == []
    spark.sql("SELECT 7L AS id").write.json(str(tmp_path / "in"))
    text = f"COPY INTO delta.`{table}` FROM (SELECT CAST(id AS BIGINT) AS id FROM '{tmp_path}/in') FILEFORMAT = JSON"
    assert run(text) == [{"num_affected_rows": 1}]
    assert run(text) == [{"num_affected_rows": 0}]
    assert [row[0] for row in reference_rows()] == [0, 1, 2, 7]


def test_settings_of_the_session_hold_for_statements(spark, run, table, reference_rows):
    t = f"delta.`{table}`"
    run(f"CREATE TABLE {t} USING delta PARTITIONED BY (p) AS SELECT id, id AS p FROM range(3)")
    settings = {
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.databricks.delta.schema.autoMerge.enabled": "true",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        run(f"INSERT OVERWRITE {t} BY NAME SELECT 8L AS id, 1L AS p, 'x' AS more")
    finally:
        for name in settings:
            spark.conf.unset(name)
    assert reference_rows() == [(0, 0, None), (2, 2, None), (8, 1, "x")]


def test_storage_options_of_a_call_reach_one_table(run, table):
    with pytest.raises(InvalidStatementError, match="reach the statement's own table only"):
        run(f"INSERT INTO delta.`{table}` BY NAME SELECT * FROM delta.`/other`", allowed_prefixes=["/x"])


def test_statements_of_spark_stay_spark_s(spark, run):
    run("CREATE OR REPLACE TEMPORARY VIEW sql_text_view AS SELECT 1 AS id")
    assert run("SHOW COLUMNS IN sql_text_view") == [{"col_name": "id"}]
    spark.catalog.dropTempView("sql_text_view")


def test_the_example_of_the_documentation_runs(spark, tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "scripts.md").read_text()
    [example] = [block for block in re.findall(r"```py\n(.*?)```", page, re.DOTALL) if "/lake/birds" in block]
    exec(example.replace("/lake", str(tmp_path)), {"spark": spark})
    assert operations(f"{tmp_path}/birds") == ["CREATE TABLE", "WRITE", "UPDATE"]
