"""The WRITE statement from the outside: what other engines then read, what the log says, what is left after a failure."""

import datetime as dt
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    ConstraintViolatedError,
    InvalidPredicateError,
    InvalidTablePropertyError,
    MetadataChangedError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
)
from airflow_delta.core.statements import FileSource, SqlSource, TableSource, WriteStatement
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.spark.errors import SourceUnreadableError
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.write.write import write

DAYS = "SELECT id, date_add(DATE'2013-01-01', CAST(id % 3 AS INT)) AS day FROM range({})"


def info(table, version=None):
    return DeltaLog.for_table(table).snapshot(version=version).commit_info


def data_files(table):
    return {str(path.relative_to(table)) for path in Path(table).rglob("*.parquet")}


def active_files(table):
    return set(DeltaLog.for_table(table).snapshot().files()["path"].to_pylist())


# -- making a table


def test_the_first_write_makes_the_table(write_rows, reference_rows, table):
    result = write_rows(
        "SELECT id, CAST(id % 2 AS STRING) AS p FROM range(4)", partition_by="p", properties={"delta.appendOnly": "true"}
    )

    assert (result.version, result.read_version, result.committed) == (0, -1, True)
    assert (result.operation, result.metrics["numFiles"], result.metrics["numOutputRows"]) == ("CREATE TABLE AS SELECT", 2, 4)
    assert reference_rows() == [(0, "0"), (1, "1"), (2, "0"), (3, "1")]
    snapshot = DeltaLog.for_table(table).snapshot()
    assert (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version) == (1, 2)
    assert snapshot.metadata.configuration == {"delta.appendOnly": "true"}
    assert info(table).operation_parameters["partitionBy"] == '["p"]'


def test_a_column_without_zone_gets_the_protocol_it_needs(write_rows, reference_rows, table):
    write_rows("SELECT 1 AS id, TIMESTAMP_NTZ'2013-01-01 05:06:07.123456' AS at")

    assert reference_rows() == [(1, dt.datetime(2013, 1, 1, 5, 6, 7, 123456))]  # noqa: DTZ001 - it has no zone
    assert DeltaLog.for_table(table).snapshot().protocol.writer_features == {"timestampNtz", "appendOnly", "invariants"}


def test_no_rows_make_an_empty_table(write_rows, reference_rows, table):
    result = write_rows("SELECT id, 'x' AS p FROM range(0)", partition_by="p")

    assert (result.version, result.metrics["numFiles"], result.metrics["numOutputRows"]) == (0, 0, 0)
    assert reference_rows() == []
    assert write_rows("SELECT id, 'x' AS p FROM range(0)").version == 1
    assert data_files(table) == set()


@pytest.mark.parametrize(
    ("query", "partition_by", "column"),
    [
        pytest.param("SELECT 1 AS `a b`", (), "a b", id="sign-in-a-name"),
        pytest.param("SELECT 1 AS a, NULL AS b", (), "b", id="column-without-type"),
        pytest.param("SELECT 1 AS a, 2 AS A", (), "a", id="one-name-twice"),
        pytest.param("SELECT 1 AS a", ("b",), "b", id="unknown-partition-column"),
        pytest.param("SELECT 1 AS a, array(1) AS b", ("b",), "b", id="list-as-partition-column"),
        pytest.param("SELECT 1 AS a", ("a",), "all columns", id="nothing-but-partition-columns"),
    ],
)
def test_rows_that_no_table_can_hold_are_refused_and_nothing_is_created(write_rows, table, query, partition_by, column):
    with pytest.raises(SchemaMismatchError) as caught:
        write_rows(query, partition_by=partition_by)

    assert len(caught.value.differences) == 1
    assert column in caught.value.differences[0]
    assert not Path(table).exists()


@pytest.mark.parametrize(
    "properties",
    [{"delta.feature.novelty": "supported"}, {"delta.constraints.c": "id > 0"}, {"delta.apendOnly": "true"}],
    ids=lambda properties: next(iter(properties)),
)
def test_a_property_that_no_table_here_can_have_is_refused(write_rows, table, properties):
    with pytest.raises(InvalidTablePropertyError):
        write_rows("SELECT 1 AS id", properties=properties)

    assert not Path(table).exists()


# -- append


def test_append_adds_rows_by_name_and_fills_what_they_lack(write_rows, reference_rows, table):
    write_rows("SELECT 1L AS id, 'a' AS name, 1.5D AS x")
    result = write_rows("SELECT CAST(2 AS SMALLINT) AS ID, CAST(0.5 AS FLOAT) AS x")

    assert reference_rows() == [(1, "a", 1.5), (2, None, 0.5)]
    assert (result.operation, result.version, result.read_version) == ("WRITE", 1, 0)
    commit = info(table)
    assert commit.operation_parameters == {"mode": "Append", "partitionBy": "[]"}
    assert commit.is_blind_append is True
    assert commit.operation_metrics["numOutputRows"] == "1"


def test_rows_that_do_not_fit_are_refused_with_every_difference(write_rows, table):
    write_rows("SELECT 1 AS id, named_struct('x', 1, 'y', DATE'2013-01-01') AS s")
    before = data_files(table)

    with pytest.raises(SchemaMismatchError) as caught:
        write_rows("SELECT 'one' AS id, named_struct('x', 1, 'y', 'never', 'z', 1) AS s, 3 AS other")

    assert [line.partition(":")[0] for line in caught.value.differences] == ["id", "s.y", "s.z", "other"]
    assert data_files(table) == before


@pytest.mark.classic(reason="over Spark Connect, a session that is case-sensitive is refused")
def test_names_are_matched_in_any_case_whatever_the_session_says(spark, write_rows, reference_rows):
    write_rows("SELECT 1 AS id, 'a' AS name")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        write_rows("SELECT 2 AS ID, 'b' AS Name")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")

    assert reference_rows() == [(1, "a"), (2, "b")]


def test_a_number_that_its_column_cannot_hold_fails_the_write(spark, write_rows, reference_rows, table):
    write_rows("SELECT CAST(1 AS TINYINT) AS id")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(Exception, match="CAST_OVERFLOW"):
            write_rows("SELECT 300 AS id")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")

    assert reference_rows() == [(1,)]
    assert len(data_files(table)) == 1


def test_null_in_a_column_that_is_not_null_is_refused_with_the_count(spark, write_rows, table):
    write_rows("SELECT 1 AS id, named_struct('x', 1) AS s, array(1) AS l, 'p' AS p", partition_by="p")
    make_not_null(table, "id", "p", "s.x", "l.element")

    for query, constraint, rows in [
        ("SELECT IF(id > 1, NULL, 1) AS id, 'p' AS p FROM range(5)", "NOT NULL of id", 3),
        ("SELECT 1 AS id, '' AS p FROM range(2)", "NOT NULL of p", 2),
        ("SELECT 1 AS id, 'p' AS p, named_struct('x', CAST(NULL AS INT)) AS s", "NOT NULL inside s", 1),
        ("SELECT 1 AS id, 'p' AS p, array(1, NULL) AS l", "NOT NULL inside l", 1),
    ]:
        with pytest.raises(ConstraintViolatedError) as caught:
            write_rows(query)
        assert (caught.value.constraint, caught.value.rows) == (constraint, rows)
    assert len(data_files(table)) == 1
    write_rows("SELECT 2 AS id, 'p' AS p, CAST(NULL AS STRUCT<x: INT>) AS s, CAST(NULL AS ARRAY<INT>) AS l")
    rows = read_table(spark, DeltaLog.for_table(table).snapshot(), ["id", "s", "l"]).orderBy("id").collect()
    assert rows == [(1, (1,), [1]), (2, None, None)]


def make_not_null(table, *paths):
    """Another engine's change of the schema, written by hand."""
    log = DeltaLog.for_table(table)
    document = log.snapshot().metadata.to_json()
    schema = json.loads(document["schemaString"])
    fields = {field["name"]: field for field in schema["fields"]}
    for path in paths:
        name, _, inner = path.partition(".")
        if inner == "element":
            fields[name]["type"]["containsNull"] = False
        elif inner:
            fields[name]["type"]["fields"][0]["nullable"] = False
        else:
            fields[name]["nullable"] = False
    document["schemaString"] = json.dumps(schema)
    version = log.snapshot().version + 1
    (Path(table) / "_delta_log" / f"{version:020}.json").write_text(json.dumps({"metaData": document}))


# -- overwrite


def test_overwrite_leaves_only_the_new_rows(write_rows, reference_rows, table):
    write_rows("SELECT id FROM range(10)")
    first = info(table).operation_metrics["numFiles"]
    result = write_rows("SELECT id FROM range(3)", mode="overwrite")

    assert reference_rows() == [(0,), (1,), (2,)]
    assert result.metrics["numRemovedFiles"] == int(first)
    assert info(table).operation_parameters["mode"] == "Overwrite"
    assert len(reference_rows(version=0)) == 10


# -- replace_where


def test_replacing_a_range_leaves_the_rest_alone_and_can_be_done_again(write_rows, reference_rows, table):
    write_rows(DAYS.format(9), partition_by="day")
    kept = {file for file in active_files(table) if "part" in file}
    again = "SELECT id + 100 AS id, DATE'2013-01-02' AS day FROM range(2)"
    result = write_rows(again, mode="replace_where", replace_where="day = '2013-01-02'")
    rows = reference_rows()

    assert [row for row in rows if row[1] == dt.date(2013, 1, 2)] == [(100, dt.date(2013, 1, 2)), (101, dt.date(2013, 1, 2))]
    assert len(rows) == 6 + 2
    assert result.metrics["numRemovedFiles"] == 1
    assert len(active_files(table) & kept) == 2
    assert info(table).operation_parameters["predicate"] == "day = '2013-01-02'"
    assert info(table).is_blind_append is False
    write_rows(again, mode="replace_where", replace_where="day = '2013-01-02'")
    assert reference_rows() == rows


def test_replacing_a_range_with_nothing_empties_it(write_rows, reference_rows):
    write_rows(DAYS.format(3), partition_by="day")
    write_rows(f"{DAYS.format(3)} WHERE false", mode="replace_where", replace_where="day >= DATE'2013-01-02'")

    assert reference_rows() == [(0, dt.date(2013, 1, 1))]


def test_rows_outside_the_replaced_range_are_refused(write_rows, reference_rows, table):
    write_rows(DAYS.format(3), partition_by="day")
    before = data_files(table)

    with pytest.raises(ConstraintViolatedError) as caught:
        write_rows(DAYS.format(9), mode="replace_where", replace_where="day = '2013-01-01'")

    assert caught.value.rows == 6
    assert data_files(table) == before
    assert len(reference_rows()) == 3


def test_a_row_without_the_partition_value_is_outside_of_every_range(write_rows):
    write_rows(DAYS.format(3), partition_by="day")

    with pytest.raises(ConstraintViolatedError):
        write_rows("SELECT 1L AS id, CAST(NULL AS DATE) AS day", mode="replace_where", replace_where="day = '2013-01-01'")


@pytest.mark.parametrize(
    "predicate", ["nonsense = 1", "day =", "no_such_function(id)", "id + 1", "rand() < 0.5", "max(id) = 1"]
)
def test_a_range_that_means_nothing_is_refused(write_rows, table, predicate):
    write_rows(DAYS.format(3), partition_by="day")

    with pytest.raises(InvalidPredicateError) as caught:
        write_rows(DAYS.format(3), mode="replace_where", replace_where=predicate)

    assert caught.value.predicate == predicate
    assert DeltaLog.for_table(table).snapshot().version == 0


def test_a_range_of_a_table_that_is_not_there_makes_the_table(write_rows, reference_rows):
    write_rows("SELECT 1 AS id, 'a' AS p", mode="replace_where", replace_where="p = 'a'", partition_by="p")

    assert reference_rows() == [(1, "a")]


def test_another_partitioning_than_the_tables_is_refused(write_rows):
    write_rows(DAYS.format(3), partition_by="day")

    with pytest.raises(SchemaMismatchError):
        write_rows(DAYS.format(3), partition_by="id")
    assert write_rows(DAYS.format(3), partition_by="DAY").version == 1


# -- failures leave nothing


def test_a_failing_function_leaves_neither_a_table_nor_a_file(spark, table, write_rows):
    def fail(number):
        if number == 90:
            raise ValueError(number)
        return number

    spark.udf.register("fail_at_90", fail, "long")
    failing = "SELECT fail_at_90(id) AS id, CAST(id % 4 AS STRING) AS p FROM range(100)"
    with pytest.raises(Exception, match="ValueError"):
        write_rows(failing, partition_by="p")
    assert not Path(table).exists()

    write_rows("SELECT id, 'p' AS p FROM range(2)", partition_by="p")
    before = set(Path(table).iterdir())
    with pytest.raises(Exception, match="ValueError"):
        write_rows(failing)
    assert set(Path(table).iterdir()) == before


def test_an_unreadable_source_creates_nothing(write_rows, table, tmp_path):
    for query in ("SELECT nope", "SELEC 1", "SELECT * FROM no_such_view"):
        with pytest.raises(SourceUnreadableError):
            write_rows(query)
    with pytest.raises(SourceUnreadableError):
        write_rows(FileSource(str(tmp_path / "nothing.csv"), format="csv"))
    with pytest.raises(TableNotFoundError):
        write_rows(TableSource(str(tmp_path / "nothing")))
    assert not (tmp_path / "nothing").exists()
    assert not Path(table).exists()


def test_a_dry_run_checks_and_leaves_nothing(write_rows, reference_rows, table):
    result = write_rows("SELECT id FROM range(3)", dry_run=True)
    assert (result.committed, result.version, result.metrics["numOutputRows"]) == (False, -1, 3)
    assert not Path(table).exists()

    write_rows("SELECT id FROM range(3)")
    before = data_files(table)
    result = write_rows("SELECT id FROM range(2)", mode="overwrite", dry_run=True)
    assert (result.committed, result.version, result.metrics["numRemovedFiles"]) == (False, 0, len(before))
    assert data_files(table) == before
    assert len(reference_rows()) == 3


# -- races


@pytest.fixture
def during_staging(spark, monkeypatch):
    """Run something between a write's reading of the table and its commit."""

    def arrange(action):
        def once(self):
            monkeypatch.undo()
            action()
            return self.keep()

        monkeypatch.setattr("airflow_delta.spark.io.staging.StagingArea.keep", once)

    return arrange


def test_an_append_in_between_does_not_disturb_an_append(write_rows, reference_rows, during_staging):
    write_rows("SELECT 1 AS id")
    during_staging(lambda: write_rows("SELECT 2 AS id"))
    result = write_rows("SELECT 3 AS id")

    assert reference_rows() == [(1,), (2,), (3,)]
    assert (result.version, result.read_version, result.attempts) == (2, 0, 2)


def test_a_replaced_range_holds_only_its_rows_after_concurrent_writes_into_it(write_rows, reference_rows, during_staging):
    write_rows(DAYS.format(3), partition_by="day")
    during_staging(lambda: write_rows("SELECT 50L AS id, DATE'2013-01-01' AS day"))
    result = write_rows("SELECT 60L AS id, DATE'2013-01-01' AS day", mode="replace_where", replace_where="day = '2013-01-01'")

    assert [row[0] for row in reference_rows() if row[1] == dt.date(2013, 1, 1)] == [60]
    assert (result.version, result.read_version, result.attempts) == (2, 1, 2)
    assert [conflict["rule"] for conflict in result.conflicts] == ["DELTA_CONCURRENT_APPEND"]


def test_a_write_into_another_range_is_no_conflict(write_rows, reference_rows, during_staging):
    write_rows(DAYS.format(3), partition_by="day")
    during_staging(lambda: write_rows("SELECT 50L AS id, DATE'2013-01-02' AS day"))
    result = write_rows("SELECT 60L AS id, DATE'2013-01-01' AS day", mode="replace_where", replace_where="day = '2013-01-01'")

    assert [row[0] for row in reference_rows()] == [1, 2, 50, 60]
    assert (result.version, result.read_version) == (2, 0)


def test_two_writers_that_make_one_table_both_write_into_it(write_rows, reference_rows, during_staging):
    during_staging(lambda: write_rows("SELECT 1 AS id"))
    result = write_rows("SELECT 2 AS id")

    assert reference_rows() == [(1,), (2,)]
    assert (result.version, result.operation) == (1, "WRITE")


def test_a_create_of_a_table_that_another_writer_creates_first_fails_and_keeps_its_rows(
    write_rows, reference_rows, table, during_staging
):
    during_staging(lambda: write_rows("SELECT 1 AS id"))

    with pytest.raises(TableExistsError):
        write_rows("SELECT 2 AS id", mode="create")
    assert reference_rows() == [(1,)]
    assert len(data_files(table)) == 1


def test_rows_are_computed_anew_for_a_table_made_meanwhile_with_more_columns(write_rows, reference_rows, during_staging):
    during_staging(lambda: write_rows("SELECT 1 AS id, 'a' AS name"))
    result = write_rows("SELECT 2 AS id", mode="append", merge_schema=True)

    assert reference_rows() == [(1, "a"), (2, None)]
    assert (result.version, [conflict["rule"] for conflict in result.conflicts]) == (1, ["DELTA_TABLE_EXISTS"])


def test_a_changed_schema_in_between_is_a_conflict_and_leaves_no_file(write_rows, table, during_staging):
    write_rows("SELECT 1 AS id")
    during_staging(lambda: make_not_null(table, "id"))

    with pytest.raises(MetadataChangedError):
        write_rows("SELECT 2 AS id")
    assert len(data_files(table)) == 1


def test_a_changed_property_in_between_is_no_reason_to_give_up(write_rows, reference_rows, table, during_staging):
    write_rows("SELECT 1 AS id")

    def set_property():
        log = DeltaLog.for_table(table)
        transaction = log.start_transaction()
        transaction.set_metadata(replace(transaction.metadata, configuration={"delta.checkpointInterval": "5"}))
        transaction.commit(operation=Operation(name="SET TBLPROPERTIES"))

    during_staging(set_property)
    result = write_rows("SELECT 2 AS id")

    assert reference_rows() == [(1,), (2,)]
    assert [conflict["rule"] for conflict in result.conflicts] == ["DELTA_METADATA_CHANGED"]


# -- tokens and provenance


def test_the_commit_of_an_earlier_try_is_the_result(write_rows, reference_rows, table):
    write_rows("SELECT 1 AS id")
    origin = Origin(token="t-1", job={"jobName": "dag", "jobRunId": "run"})
    first = write_rows("SELECT 2 AS id", origin=origin, start_version=0)
    write_rows("SELECT 3 AS id")
    second = write_rows("SELECT 2 AS id", origin=origin, start_version=0)

    assert reference_rows() == [(1,), (2,), (3,)]
    assert (second.version, second.already_committed, second.metrics) == (first.version, True, first.metrics)
    assert info(table, 1).origin.job == {"jobName": "dag", "jobRunId": "run"}


def test_a_duplicate_attempt_that_commits_meanwhile_is_the_result_and_our_files_go(
    write_rows, reference_rows, table, during_staging
):
    write_rows("SELECT 1 AS id")
    origin = Origin(token="t-1")
    during_staging(lambda: write_rows("SELECT 2 AS id", origin=origin))
    result = write_rows("SELECT 2 AS id", origin=origin)

    assert reference_rows() == [(1,), (2,)]
    assert (result.version, result.already_committed) == (1, True)
    assert len(data_files(table)) == 2


def test_a_duplicate_attempt_that_commits_behind_the_winner_of_a_race_is_the_result(
    write_rows, reference_rows, table, during_staging, monkeypatch
):
    origin, refresh = Origin(token="t-1"), DeltaLog.refresh

    def after_the_duplicate(log):
        monkeypatch.setattr(DeltaLog, "refresh", refresh)
        write_rows("SELECT 2 AS id", origin=origin)
        return log.refresh()

    def lose():
        write_rows("SELECT 1 AS id")
        monkeypatch.setattr(DeltaLog, "refresh", after_the_duplicate)

    during_staging(lose)
    result = write_rows("SELECT 2 AS id", origin=origin, start_version=-1)

    assert reference_rows() == [(1,), (2,)]
    assert (result.version, result.already_committed, result.attempts) == (1, True, 2)
    assert len(data_files(table)) == 2


def test_the_versions_that_were_read_are_in_the_result_and_in_the_log(write_rows, spark, table, tmp_path):
    write_rows("SELECT id FROM range(3)")
    write_rows("SELECT id FROM range(5)")
    gold = str(tmp_path / "gold")
    source = SqlSource("SELECT count(*) AS n FROM a, b", views={"a": TableSource(table), "b": TableSource(table, version=0)})
    log = DeltaLog.for_table(gold)
    result = write(spark, log, WriteStatement(table=gold, source=source))

    assert log.snapshot().to_arrow().read_all().to_pylist() == [{"n": 8 * 3}]
    assert result.sources == ({"table": table, "version": 1}, {"table": table, "version": 0})
    assert info(gold).origin.record["sources"] == list(result.sources)


# -- types


def test_every_type_goes_round(write_rows, reference_rows, table):
    write_rows("""
        SELECT 1 AS id, CAST(-1 AS TINYINT) AS b, CAST(300 AS SMALLINT) AS s, 5000000000 AS l,
               CAST(1.5 AS FLOAT) AS f, 2.5D AS d, CAST('12345678901234567890.123456789' AS DECIMAL(38, 9)) AS big,
               CAST('-0.01' AS DECIMAL(9, 2)) AS small, 'tëxt' AS t, X'00FF' AS bin, true AS yes, DATE'1500-03-01' AS day,
               TIMESTAMP'1900-01-01 00:00:00.000001' AS at,
               named_struct('a', array(map('k', X'01')), 'n', CAST(NULL AS INT)) AS deep
    """)

    assert reference_rows() == [
        (
            1,
            -1,
            300,
            5000000000,
            1.5,
            2.5,
            Decimal("12345678901234567890.123456789"),
            Decimal("-0.01"),
            "tëxt",
            b"\x00\xff",
            True,
            dt.date(1500, 3, 1),
            dt.datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC),
            {"a": [[("k", b"\x01")]], "n": None},
        )
    ]
    footer = pq.read_metadata(Path(table) / next(iter(data_files(table))))
    kinds = {
        footer.schema.column(index).name: str(footer.schema.column(index).logical_type) for index in range(footer.num_columns)
    }
    assert "timeUnit=microseconds" in kinds["at"]
    assert not [key for key in footer.metadata if b"legacy" in key]


def test_a_session_in_the_old_calendar_does_not_write_it(spark, write_rows, reference_rows, table):
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    try:
        write_rows("SELECT 1 AS id, DATE'1500-03-01' AS day")
        assert spark.conf.get("spark.sql.parquet.datetimeRebaseModeInWrite") == "LEGACY"
    finally:
        spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInWrite")

    assert reference_rows() == [(1, dt.date(1500, 3, 1))]


SPECIAL = [
    "a b",
    "per%cent",
    "sl/ash",
    "eq=ual",
    "ha#sh",
    "que?stion",
    "plus+",
    "co:lon",
    "__HIVE_DEFAULT_PARTITION__",
    "üñí 世界",
    "a%20b",
    "'",
    '"',
    "\\",
    "\n",
    ".",
    "{[*]}",
]


def test_special_partition_values_go_round(spark, write_rows, reference_rows):
    values = [*SPECIAL, None]
    spark.createDataFrame(list(enumerate(values)), "id int, p string").createOrReplaceTempView("special")
    write_rows("SELECT * FROM special", partition_by="p")

    assert reference_rows() == list(enumerate(values))


def test_empty_text_is_null_in_a_partition_column(write_rows, reference_rows):
    write_rows("SELECT 1 AS id, '' AS p UNION ALL SELECT 2, NULL", partition_by="p")

    assert reference_rows() == [(1, None), (2, None)]


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("DATE'1500-03-01'", dt.date(1500, 3, 1)),
        ("TIMESTAMP'1900-01-01 00:00:00.000001'", dt.datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC)),
        ("TIMESTAMP_NTZ'1890-06-01 01:02:03.5'", dt.datetime(1890, 6, 1, 1, 2, 3, 500_000)),  # noqa: DTZ001 - it has no zone
        ("CAST('12.30' AS DECIMAL(9, 2))", Decimal("12.30")),
        ("CAST(-0.0 AS DOUBLE)", 0.0),
        ("1.0E10D", 1.0e10),
        ("true", True),
        ("CAST(-7 AS TINYINT)", -7),
    ],
)
def test_partition_values_of_every_type_go_round(write_rows, reference_rows, sql, value):
    write_rows(f"SELECT 1 AS id, {sql} AS p UNION ALL SELECT 2, NULL", partition_by="p")

    assert reference_rows() == [(1, value), (2, None)]


def test_several_partition_columns_with_nulls_in_turn_stay_apart(write_rows, reference_rows):
    write_rows(
        "SELECT * FROM VALUES (1, NULL, 'a'), (2, 'a', NULL), (3, NULL, NULL), (4, 'a', 'a') AS t(id, p, q)",
        partition_by=("p", "q"),
    )

    assert reference_rows() == [(1, None, "a"), (2, "a", None), (3, None, None), (4, "a", "a")]


def test_a_column_named_like_our_directories_is_written(write_rows, reference_rows):
    write_rows("SELECT 1 AS id, 2 AS part, 'x' AS PART_", partition_by="part_")

    assert reference_rows() == [(1, 2, "x")]


@pytest.mark.parametrize("make", [str, "file:{}".format, "file://{}".format], ids=["path", "file:", "file://"])
def test_a_table_may_lie_anywhere(spark, tmp_path, make):
    table = tmp_path / "t[a]*{b,c} %20#?+&é"
    for mode in ("append", "replace_where"):
        statement = WriteStatement(
            table=make(table),
            source=SqlSource("SELECT id, CONCAT('v', id % 2) AS p FROM range(4)"),
            mode=mode,
            replace_where="p >= ''" if mode == "replace_where" else None,
            partition_by="p",
            expect=("id < 4",),
        )
        write(spark, DeltaLog.for_table(make(table)), statement)

    rows = DeltaLog.for_table(str(table)).snapshot().to_arrow().read_all()
    assert sorted(rows.to_pydict()["id"]) == [0, 1, 2, 3]


def test_a_partition_is_one_file_whatever_the_plan_made_of_it(write_rows, table):
    write_rows("SELECT /*+ REPARTITION(8) */ id, id % 2 AS p FROM range(1000)", partition_by="p")

    assert len(data_files(table)) == 2
