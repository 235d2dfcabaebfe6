"""Rows that a write replaces: by any condition, by partition, with concurrent writers."""

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    ConcurrentTransactionError,
    ConstraintViolatedError,
    InvalidPredicateError,
    UnsupportedReaderFeatureError,
    UnsupportedWriterFeatureError,
)
from airflow_delta.core.statements import DeleteStatement
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.write import write as write_module
from airflow_delta.spark.write.replaced_files import plan_replacement
from tests.core.builders import metadata, protocol
from tests.slow_cases import slow_after
from tests.spark.session_settings import session_settings, zone_of_another_day

ROWS = "SELECT id, IF(id = 4, NULL, id * 10) AS v, CAST(id % 2 AS STRING) AS p FROM range({}, {}, 1, 1)"


def paths(snapshot):
    return set(snapshot.files()["path"].to_pylist())


# -- by a condition on rows


def test_only_rows_of_the_range_are_replaced_and_files_that_hold_others_are_written_anew(write_rows, reference_rows, latest):
    write_rows(ROWS.format(0, 4))
    write_rows(ROWS.format(4, 8))
    whole = paths(latest())
    write_rows(ROWS.format(8, 10))
    untouched = paths(latest()) - whole
    result = write_rows(
        "SELECT 50L AS id, 45L AS v, 'x' AS p", mode="replace_where", replace_where="v BETWEEN 20 AND 60"
    )  # rows 2, 3, 5, 6; NULL in row 4 is not in the range

    assert reference_rows() == [
        (0, 0, "0"), (1, 10, "1"), (4, None, "0"), (7, 70, "1"), (8, 80, "0"), (9, 90, "1"), (50, 45, "x"),
    ]  # fmt: skip
    assert untouched < paths(latest())
    assert (result.operation, result.metrics["numOutputRows"], result.metrics["numDeletedRows"]) == ("WRITE", 1, 4)
    assert result.metrics["numCopiedRows"] + 4 == sum(len(text) for text in ("abcd", "efgh"))
    commit = latest().commit_info
    assert commit.operation_parameters == {"mode": "Overwrite", "partitionBy": "[]", "predicate": "v BETWEEN 20 AND 60"}


def test_files_of_which_all_rows_go_are_not_opened_and_others_get_deletion_vectors_where_the_table_has_them(
    write_rows, seen, latest, table
):
    write_rows(ROWS.format(0, 4), properties={"delta.enableDeletionVectors": "true"})
    write_rows(ROWS.format(10, 14))
    result = write_rows("SELECT 99L AS id, 1L AS v, 'n' AS p", mode="replace_where", replace_where="id >= 3")

    assert seen("id") == [(0,), (1,), (2,), (99,)]
    assert (result.metrics["numDeletedRows"], result.metrics["numCopiedRows"]) == (5, 0)
    deletion_vectors = latest().files()["deletion_vector"].drop_null()
    assert sum(deletion_vector["cardinality"].as_py() for deletion_vector in deletion_vectors) == 1


@pytest.mark.parametrize("mapping", slow_after(1, ["id", "none"]))
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_range_of_which_no_file_can_hold_a_row_gets_its_rows_beside_all_others(write_rows, seen, latest, mapping, vectors):
    properties = {"delta.columnMapping.mode": mapping, "delta.enableDeletionVectors": vectors}
    write_rows("SELECT 63L AS id, CAST(NULL AS BIGINT) AS v, 'a' AS p", properties=properties)
    before = paths(latest())
    nothing = write_rows("SELECT 1L AS id, 3L AS v, 'a' AS p WHERE false", mode="replace_where", replace_where="v > 2")
    result = write_rows("SELECT 1L AS id, 3L AS v, 'a' AS p", mode="replace_where", replace_where="v > 2")

    assert seen("id, v") == [(1, 3), (63, None)]
    assert before < paths(latest())
    assert (nothing.metrics["numOutputRows"], nothing.metrics["numDeletedRows"]) == (0, 0)
    assert (result.metrics["numOutputRows"], result.metrics["numDeletedRows"]) == (1, 0)


def test_rows_outside_of_a_range_of_rows_are_refused_before_anything_is_committed(write_rows, reference_rows, table):
    write_rows(ROWS.format(0, 4))
    for query in (ROWS.format(0, 4), "SELECT 1L AS id, CAST(NULL AS BIGINT) AS v, 'x' AS p"):
        with pytest.raises(ConstraintViolatedError) as caught:
            write_rows(query, mode="replace_where", replace_where="v > 10")
        assert caught.value.rows == (2 if "range" in query else 1)

    assert len(reference_rows()) == 4
    assert DeltaLog.for_table(table).snapshot().version == 0


def test_a_range_that_only_spark_can_take_apart_is_replaced_and_enforced(write_rows, reference_rows, latest):
    rows = "SELECT id, map('env', CONCAT('e', id)) AS props FROM range(2)"
    where = {"mode": "replace_where", "replace_where": "props.env = 'e1'"}
    write_rows(rows)
    write_rows("SELECT 7L AS id, map('env', 'e1') AS props", **where)

    assert reference_rows(columns="id") == [(0,), (7,)]
    with pytest.raises(ConstraintViolatedError):
        write_rows(rows, **where)
    for condition in ("props.env IN (SELECT 'e1')", "nothing.env = 'e1'"):
        with pytest.raises(InvalidPredicateError):
            write_rows(rows, mode="replace_where", replace_where=condition)
    assert latest().version == 1


def test_a_condition_of_partition_and_other_columns_touches_its_partition_only(write_rows, reference_rows, latest):
    write_rows(ROWS.format(0, 8), partition_by="p")
    kept = paths(latest())
    write_rows("SELECT 70L AS id, 1L AS v, '1' AS p", mode="replace_where", replace_where="P = '1' AND id % 3 = 1")

    assert [row[0] for row in reference_rows()] == [0, 2, 3, 4, 5, 6, 70]
    assert len(kept & paths(latest())) == 1


def test_rows_that_came_into_the_range_meanwhile_are_replaced_too(write_rows, reference_rows, during_staging):
    write_rows(ROWS.format(0, 4))
    during_staging(lambda: write_rows("SELECT 33L AS id, 15L AS v, 'x' AS p"))
    result = write_rows("SELECT 44L AS id, 11L AS v, 'x' AS p", mode="replace_where", replace_where="v < 20")

    assert [row[0] for row in reference_rows()] == [2, 3, 44]
    assert (result.version, result.attempts, result.conflicts[0]["rule"]) == (2, 2, "DELTA_CONCURRENT_APPEND")
    assert result.conflicts[0]["lost_ms"] > 0


def test_rows_that_went_from_a_touched_file_meanwhile_stay_gone(spark, write_rows, reference_rows, during_staging, table):
    write_rows(ROWS.format(0, 4))
    statement = DeleteStatement(table=table, where="id = 3")
    during_staging(lambda: delete(spark, DeltaLog.for_table(table), statement))
    write_rows("SELECT 44L AS id, 11L AS v, 'x' AS p", mode="replace_where", replace_where="v < 20")

    assert [row[0] for row in reference_rows()] == [2, 44]


def test_a_feature_unsupported_here_that_came_meanwhile_ends_the_write_before_more_is_written(
    write_rows, table, during_staging, monkeypatch
):
    feature = "novelty"
    write_rows(ROWS.format(0, 4))
    replacements = []

    def change_table():
        snapshot = DeltaLog.for_table(table).snapshot()
        listed = protocol(2, 7, writerFeatures=["appendOnly", "invariants", "columnMapping", feature])
        changed = metadata(snapshot.schema_string, **{f"delta.enable{feature[0].upper()}{feature[1:]}": "true"})
        changed["metaData"]["id"] = snapshot.metadata.id
        commit = Path(table, "_delta_log", f"{snapshot.version + 1:020d}.json")
        commit.write_text("\n".join(map(json.dumps, (listed, changed))))
        monkeypatch.setattr(
            write_module,
            "plan_replacement",
            lambda *given, **named: replacements.append(given) or plan_replacement(*given, **named),
        )

    during_staging(change_table)
    before = sorted(Path(table).rglob("*.parquet"))
    with pytest.raises((UnsupportedWriterFeatureError, UnsupportedReaderFeatureError)) as caught:
        write_rows("SELECT 44L AS id, 11L AS v, 'x' AS p", mode="replace_where", replace_where="v < 20")
    assert (caught.value.features, replacements) == ((feature,), [])
    assert (DeltaLog.for_table(table).snapshot().version, sorted(Path(table).rglob("*.parquet"))) == (1, before)


def test_a_dry_run_of_a_range_says_what_would_go_and_leaves_no_file(write_rows, latest, table, tmp_path):
    write_rows(ROWS.format(0, 4))
    before = sorted(map(str, tmp_path.rglob("*.parquet")))
    arguments = {"mode": "replace_where", "replace_where": "v < 20", "dry_run": True}
    result = write_rows("SELECT 44L AS id, 11L AS v, 'x' AS p", **arguments)

    assert (result.committed, result.metrics["numDeletedRows"], result.metrics["numCopiedRows"]) == (False, 2, 2)
    assert sorted(map(str, tmp_path.rglob("*.parquet"))) == before


# -- by partition


def test_exactly_the_partitions_that_rows_come_into_are_replaced(write_rows, reference_rows, latest):
    rows = "SELECT * FROM VALUES (1, 'a', 1), (2, 'a', 2), (3, NULL, 1), (4, 'b', NULL), (5, 'b', 1) AS t(id, p, q)"
    write_rows(rows, partition_by=("p", "q"))
    result = write_rows(
        "SELECT * FROM VALUES (10, NULL, 1), (11, 'b', NULL), (12, 'c', 1) AS t(id, p, q)", mode="dynamic_overwrite"
    )

    assert reference_rows() == [(1, "a", 1), (2, "a", 2), (5, "b", 1), (10, None, 1), (11, "b", None), (12, "c", 1)]
    assert result.metrics["numRemovedFiles"] == 2
    assert latest().commit_info.operation_parameters["isDynamicPartitionOverwrite"] is True
    assert write_rows("SELECT * FROM VALUES (1, 'a', 1) AS t(id, p, q) WHERE false", mode="dynamic_overwrite").version == 2
    assert len(reference_rows()) == 6


def test_partitions_are_the_same_however_another_engine_spells_their_values(write_rows, reference_rows, table):
    days = [dt.datetime(2013, 1, day, 5, tzinfo=dt.UTC) for day in (1, 2)]
    write_deltalake(table, pa.table({"id": [1, 2], "at": pa.array(days, pa.timestamp("us", "UTC"))}), partition_by=["at"])
    write_rows("SELECT 3L AS id, TIMESTAMP'2013-01-02 05:00:00Z' AS at", mode="dynamic_overwrite")

    assert reference_rows() == [(1, days[0]), (3, days[1])]


@pytest.mark.parametrize("kind", ["float", "double"])
def test_both_zeros_are_one_partition_where_another_engine_made_two(write_rows, reference_rows, table, kind):
    values = pa.array([0.0, -0.0, 1.5], pa.float32() if kind == "float" else pa.float64())
    write_deltalake(table, pa.table({"id": [1, 2, 3], "d": values, "q": ["a", "a", "a"]}), partition_by=["d", "q"])
    write_rows(f"SELECT 9L AS id, CAST(0 AS {kind}) AS d, 'a' AS q", mode="dynamic_overwrite")

    assert reference_rows() == [(3, 1.5, "a"), (9, 0.0, "a")]


def test_a_table_without_partitions_is_overwritten_whole(write_rows, reference_rows):
    write_rows(ROWS.format(0, 4))
    write_rows(ROWS.format(7, 8), mode="dynamic_overwrite")

    assert [row[0] for row in reference_rows()] == [7]


def test_only_what_others_do_in_the_same_partitions_is_a_conflict(write_rows, reference_rows, during_staging):
    write_rows(ROWS.format(0, 4), partition_by="p")
    during_staging(lambda: write_rows("SELECT 30L AS id, 1L AS v, '1' AS p"))
    other = write_rows("SELECT 40L AS id, 1L AS v, '0' AS p", mode="dynamic_overwrite")
    during_staging(lambda: write_rows("SELECT 50L AS id, 1L AS v, '0' AS p"))
    same = write_rows("SELECT 60L AS id, 1L AS v, '0' AS p", mode="dynamic_overwrite")

    assert [row[0] for row in reference_rows()] == [1, 3, 30, 60]
    assert [conflict["rule"] for conflict in other.conflicts] == [None]
    assert [conflict["rule"] for conflict in same.conflicts] == ["DELTA_CONCURRENT_APPEND"]


# -- once


def test_a_write_that_its_application_has_made_already_commits_nothing_and_says_so(write_rows, reference_rows, latest):
    write_rows(ROWS.format(0, 1), txn=("loader", 3))
    again = write_rows(ROWS.format(1, 2), txn=("loader", 3))
    write_rows(ROWS.format(2, 3), txn=("other", 1))
    write_rows(ROWS.format(3, 4), txn=("loader", 4), user_metadata="the fourth")

    assert [row[0] for row in reference_rows()] == [0, 2, 3]
    assert (again.committed, again.version) == (False, 0)
    assert again.details == {"skipped_txn": {"app_id": "loader", "version": 3, "table_has": 3}}
    assert (latest().transactions["loader"].version, latest().commit_info.origin.user_metadata) == (4, "the fourth")


def test_of_two_writes_of_one_application_at_once_one_is_made(write_rows, reference_rows, during_staging, tmp_path):
    write_rows(ROWS.format(0, 1))
    before = len(list(tmp_path.rglob("*.parquet")))
    during_staging(lambda: write_rows(ROWS.format(1, 2), txn=("loader", 1)))
    result = write_rows(ROWS.format(1, 2), txn=("loader", 1))

    assert [row[0] for row in reference_rows()] == [0, 1]
    assert (result.committed, result.conflicts[0]["rule"]) == (False, ConcurrentTransactionError.code)
    assert len(list(tmp_path.rglob("*.parquet"))) == before + 1


def test_a_range_of_today_is_one_day_although_midnight_passes_before_its_rows_are_deleted(
    spark, write_rows, reference_rows, latest, monkeypatch
):
    before, after = ({"spark.sql.session.timeZone": zone} for zone in (zone_of_another_day(), "Pacific/Kiritimati"))

    def past_midnight(*arguments, **named):
        with session_settings(spark, after):
            return plan_replacement(*arguments, **named)

    with session_settings(spark, after):
        write_rows("SELECT 2L AS id, current_date() AS day, 'old' AS who")
    with session_settings(spark, before):
        write_rows("SELECT 1L AS id, current_date() AS day, 'old' AS who")
        monkeypatch.setattr(write_module, "plan_replacement", past_midnight)
        write_rows(
            "SELECT 1L AS id, current_date() AS day, 'new' AS who", mode="replace_where", replace_where="day = current_date()"
        )

    (_, today, _), (_, tomorrow, _) = found = reference_rows()
    assert found == [(1, today, "new"), (2, tomorrow, "old")]
    assert today < tomorrow
    assert latest().commit_info.operation_parameters["predicate"] == f"day = DATE'{today}'"
