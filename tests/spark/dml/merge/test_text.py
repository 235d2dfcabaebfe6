"""MERGE INTO as one text, run: its expressions mean what they mean in SQL, whatever the sides are called."""

import pyarrow as pa
from deltalake import write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.sql_text import merge_statement
from airflow_delta.core.statements import MatchedUpdate
from airflow_delta.spark.dml.merge import attempt
from airflow_delta.spark.dml.merge.merge import merge
from tests.spark.session_settings import session_settings, zone_of_another_day


def test_a_text_with_aliases_and_plain_names_does_what_sql_says(spark, reference_rows, table):
    write_deltalake(table, pa.table({"id": [1, 2, 3, 4], "v": ["a", "b", "c", "d"]}))
    statement = merge_statement(
        f"""
        MERGE WITH SCHEMA EVOLUTION INTO delta.`{table}` AS t
        USING (SELECT * FROM VALUES (2L, 'B', 20), (3L, 'C', 30), (9L, 'i', 90) AS x(id, v, more)) s
        ON t.id = s.id -- WHEN MATCHED THEN DELETE
        WHEN MATCHED AND s.v = 'C' THEN DELETE
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT (id, v) VALUES (id, concat(v, ' WHEN ', more))
        WHEN NOT MATCHED BY SOURCE AND id > 1 THEN UPDATE SET v = upper(v)
        """
    )
    result = merge(spark, DeltaLog.for_table(statement.table), statement)
    assert result.version == 1
    assert reference_rows() == [(1, "a", None), (2, "B", 20), (4, "D", None), (9, "i WHEN 90", None)]


def test_members_of_structs_are_assigned_one_by_one(spark, reference_rows, table):
    write_deltalake(table, pa.table({"id": [1, 2], "s": [{"a": 1, "B-c": "x"}, {"a": 2, "B-c": "y"}]}))
    statement = merge_statement(
        f"""
        MERGE INTO delta.`{table}` t USING (SELECT 2L AS id, named_struct('a', 20L) AS s) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET t.s.a = s.s.a + t.s.a
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET s.`B-c` = upper(t.s.`B-c`)
        """
    )
    merge(spark, DeltaLog.for_table(table), statement)
    assert reference_rows() == [(1, {"a": 1, "B-c": "X"}), (2, {"a": 22, "B-c": "y"})]


def test_condition_and_clauses_mean_one_day_although_midnight_passes_between_them(
    spark, write_rows, run_merge, reference_rows, monkeypatch
):
    stage = attempt.stage

    def past_midnight(*arguments, **named):
        spark.conf.set("spark.sql.session.timeZone", "Pacific/Kiritimati")
        return stage(*arguments, **named)

    updates = [
        MatchedUpdate(condition="target.day < current_date()", assignments={"seen": "DATE'1970-01-01'"}),
        MatchedUpdate(assignments={"seen": "current_date()"}),
    ]
    with session_settings(spark, {"spark.sql.session.timeZone": zone_of_another_day()}):
        write_rows(
            "SELECT 1L AS id, current_date() AS day, CAST(NULL AS DATE) AS seen UNION ALL SELECT 2L, DATE'2024-01-01', NULL"
        )
        monkeypatch.setattr(attempt, "stage", past_midnight)
        result = run_merge(
            "SELECT id FROM range(3)", on="target.id = source.id AND target.day = current_date()", clauses=updates
        )

    assert result.metrics["numTargetRowsUpdated"] == 1
    ((_, today, seen), (_, _, other)) = reference_rows()
    assert (seen, other) == (today, None)
