"""COPY INTO from the outside: each file once, whoever loads at the same time, and what other engines then read."""

import json
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    ExpectationFailedError,
    InvalidStatementError,
    LoadedFilesLostError,
    SchemaMismatchError,
    StorageAccessError,
)
from airflow_delta.core.operations.loaded_files import LOADED_FOLDER, read_loaded_files
from airflow_delta.core.statements import CopyIntoStatement
from airflow_delta.spark.errors import SourceUnreadableError
from airflow_delta.spark.jvm import is_connect
from airflow_delta.spark.write.copy_into import copy_into

SCHEMA = "id BIGINT, text STRING"


@pytest.fixture
def folder(tmp_path):
    """A folder with files: ``put(path, content)``."""

    class Folder:
        root = tmp_path / "in [1] {a,b} ü"  # a path is a path, whatever signs it holds

        def put(self, path, *lines):
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f"{line}\n" for line in lines))

        def put_columns(self, format_, name, **columns):
            self.root.mkdir(exist_ok=True)
            write = {"parquet": pq.write_table, "orc": orc.write_table}[format_]
            write(pa.table(columns), self.root / f"{name}.{format_}")

    return Folder()


@pytest.fixture
def copy(spark, table, folder):
    def run(*, origin=None, start_version=None, **statement):
        given = {"format": "csv", **({} if statement.get("format", "csv") != "csv" else {"schema": SCHEMA}), **statement}
        statement = CopyIntoStatement(table=table, path=str(folder.root), **given)
        return copy_into(spark, DeltaLog.for_table(table), statement, origin=origin, start_version=start_version)

    return run


def loaded(table):
    log = DeltaLog.for_table(table)
    return sorted(path.rpartition("ü/")[2] for path in read_loaded_files(log.store, log.snapshot()).files["path"].to_pylist())


def test_each_file_is_loaded_once_and_the_first_load_makes_the_table(copy, folder, table, reference_rows):
    folder.put("a.csv", "1,a", "2,b")
    folder.put("d/b%20 #.csv", "3,c")
    folder.put("_SUCCESS")
    first = copy(properties={"delta.appendOnly": "true"})
    assert (first.operation, first.version, first.committed) == ("COPY INTO", 0, True)
    assert {name: first.metrics[name] for name in ("numSourceFiles", "numOutputRows", "numKnownFiles")} == {
        "numSourceFiles": 2,
        "numOutputRows": 3,
        "numKnownFiles": 0,
    }
    nothing = copy()
    assert (nothing.version, nothing.committed, nothing.metrics["numKnownFiles"]) == (0, False, 2)
    folder.put("c.csv", "4,d")
    assert copy().metrics["numSourceFiles"] == 1
    assert reference_rows() == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert loaded(table) == ["a.csv", "c.csv", "d/b%20 #.csv"]
    info = DeltaLog.for_table(table).snapshot().commit_info
    assert (info.operation, info.operation_metrics["numSourceFiles"]) == ("COPY INTO", "1")


def test_a_folder_without_files_commits_nothing_and_makes_no_table(copy, folder, table):
    result = copy()
    assert (result.version, result.committed, result.metrics["numSourceFiles"]) == (-1, False, 0)
    assert not Path(table).exists()


def test_the_path_must_not_overlap_the_table(copy, folder, table):
    for path in (table, str(Path(table).parent), f"{table}/in"):
        with pytest.raises(InvalidStatementError, match="overlaps"):
            copy_into(None, DeltaLog.for_table(table), CopyIntoStatement(table=table, path=path, format="csv"))


def test_partition_folders_become_columns(copy, folder, reference_rows):
    folder.put("day=2026-01-01/a.csv", "1,a")
    folder.put("day=2026-01-02/a.csv", "2,b")
    copy(partition_by="day")
    assert reference_rows(columns="id, text, CAST(day AS STRING)") == [(1, "a", "2026-01-01"), (2, "b", "2026-01-02")]


def test_rows_that_do_not_fit_are_rescued(copy, folder, reference_rows):
    folder.put("a.csv", "1,a", "two,b", "3,c")
    result = copy(rescued_column="_rescued")
    assert (result.metrics["numRescuedRows"], result.metrics["numOutputRows"]) == (1, 3)
    assert reference_rows(columns="id, text, _rescued") == [(None, "b", "two,b"), (1, "a", None), (3, "c", None)]
    folder.put("b.csv", "4,d")
    assert copy(rescued_column="_rescued").metrics["numRescuedRows"] == 0


def test_without_a_column_for_them_rows_that_do_not_fit_fail_the_load(copy, folder, table):
    folder.put("a.csv", "1,a", "two,b")
    with pytest.raises(Exception, match=r"a\.csv|MALFORMED|FAILED_READ"):
        copy()
    assert not Path(table).exists()


def test_json_without_a_schema_brings_new_columns(copy, folder, reference_rows):
    folder.put("a.json", json.dumps({"id": 1}))
    copy(format="json", rescued_column="_bad")
    folder.put("b.json", json.dumps({"id": 2, "text": "b"}), "{broken")
    with pytest.raises(SchemaMismatchError, match="text"):
        copy(format="json", rescued_column="_bad")
    copy(format="json", rescued_column="_bad", merge_schema=True)
    assert reference_rows(columns="id, text, _bad") == [(None, None, "{broken"), (1, None, None), (2, "b", None)]


def test_parquet_files_of_different_columns_are_one_load(copy, folder, reference_rows):
    folder.root.mkdir()
    pq.write_table(pa.table({"id": [1]}), folder.root / "a.parquet")
    pq.write_table(pa.table({"id": [2], "text": ["b"]}), folder.root / "b.parquet")
    copy(format="parquet", merge_schema=True, select=["*", "_metadata.file_name AS file"])
    assert reference_rows(columns="id, text, file") == [(1, None, "a.parquet"), (2, "b", "b.parquet")]


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_columns_that_only_one_of_the_files_has_are_loaded_or_refused_never_lost(copy, folder, reference_rows, format_):
    folder.put_columns(format_, "a", id=[1], part=[{"x": 1}])
    copy(format=format_)
    folder.put_columns(format_, "b", id=[2])
    folder.put_columns(format_, "c", id=[3], text=["c"], part=[{"x": 3, "y": 4}])
    with pytest.raises(SchemaMismatchError, match="text"):
        copy(format=format_)
    copy(format=format_, merge_schema=True)
    assert reference_rows(columns="id, part.x, part.y, text") == [(1, 1, None, None), (2, None, None, None), (3, 3, 4, "c")]


@pytest.mark.parametrize("schema", [SCHEMA, f"{SCHEMA}, code STRING"])
def test_the_text_of_a_partition_folder_is_loaded_as_it_is_whatever_shares_the_load(copy, folder, reference_rows, schema):
    folder.put("code=new/a.csv", "0,a")
    copy(schema=f"{SCHEMA}, code STRING", partition_by="code")
    folder.put("code=007/a.csv", "1,a")
    copy(schema=schema)
    folder.put("code=007/b.csv", "2,b")
    folder.put("code=1.0/c.csv", "3,c")
    copy(schema=schema)
    expected = [(0, "a", "new"), (1, "a", "007"), (2, "b", "007"), (3, "c", "1.0")]
    assert reference_rows(columns="id, text, code") == expected


def test_a_type_that_the_schema_gives_a_partition_folder_is_taken(copy, folder, reference_rows):
    folder.put("code=new/a.csv", "0,a")
    copy(schema=f"{SCHEMA}, code STRING")
    folder.put("code=007/a.csv", "1,a")
    copy(schema=f"{SCHEMA}, code INT")
    assert reference_rows(columns="id, text, code") == [(0, "a", "new"), (1, "a", "7")]


@pytest.mark.parametrize("stray", ["late.csv", "x/late.csv", "day=b/hour=1/late.csv"])
def test_files_in_folders_of_other_columns_are_refused_until_they_are_loaded_apart(copy, folder, table, reference_rows, stray):
    folder.put("day=a/a.csv", "1,a")
    folder.put(stray, "2,b")
    with pytest.raises(SourceUnreadableError, match=r"expected all files in folders of the same columns, found .*late\.csv"):
        copy()
    assert not Path(table).exists()
    copy(pattern="day=*/*.csv")
    assert reference_rows(columns="id, text, day") == [(1, "a", "a")]


def test_folders_give_no_values_where_an_option_says_so(copy, folder, reference_rows):
    folder.put("day=a/a.csv", "1,a")
    folder.put("late.csv", "2,b")
    copy(options={"RecursiveFileLookup": "TRUE"})
    assert reference_rows() == [(1, "a"), (2, "b")]


def test_limits_and_patterns_leave_the_rest_for_later(copy, folder, reference_rows):
    for number in range(5):
        folder.put(f"{number}.csv", f"{number},x")
    folder.put("note.txt", "no row")
    first = copy(pattern="*.csv", max_files=2)
    assert (first.metrics["numSourceFiles"], first.metrics["numWaitingFiles"]) == (2, 3)
    copy(pattern="*.csv")
    assert [row[0] for row in reference_rows()] == [0, 1, 2, 3, 4]


def test_a_dry_run_tells_what_it_would_load_and_leaves_nothing(copy, folder, table):
    folder.put("a.csv", "1,a")
    result = copy(dry_run=True)
    assert (result.committed, result.details, result.metrics["numOutputRows"]) == (False, {"files": ["a.csv"]}, 1)
    assert not Path(table).exists()


def test_a_failed_expectation_commits_neither_rows_nor_memory(copy, folder, table):
    folder.put("a.csv", "1,a")
    with pytest.raises(ExpectationFailedError):
        copy(expect="id > 1")
    assert not Path(table).exists()
    assert copy().metrics["numSourceFiles"] == 1


def test_reload_loads_again_and_mends_a_lost_memory(copy, folder, table, reference_rows):
    folder.put("a.csv", "1,a")
    copy()
    copy(reload=True)
    assert reference_rows() == [(1, "a"), (1, "a")]
    for part in (Path(table) / LOADED_FOLDER).iterdir():
        part.unlink()
    with pytest.raises(LoadedFilesLostError):
        copy()
    copy(reload=True)
    assert copy().committed is False
    assert len(reference_rows()) == 3


def test_another_load_of_the_same_files_that_comes_first_leaves_nothing_to_do(
    copy, folder, table, reference_rows, during_staging
):
    folder.put("a.csv", "1,a")
    copy()
    folder.put("b.csv", "2,b")
    during_staging(copy)
    result = copy()
    assert (result.committed, result.metrics["numSourceFiles"], len(result.conflicts)) == (False, 0, 1)
    assert result.conflicts[0]["version"] == 1
    assert reference_rows() == [(1, "a"), (2, "b")]


def test_another_load_of_other_files_that_comes_first_keeps_what_was_staged(
    spark, copy, folder, table, reference_rows, during_staging, monkeypatch, tmp_path
):
    folder.put("a.csv", "1,a")
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.csv").write_text("2,b\n")
    statement = CopyIntoStatement(table=table, path=str(other), format="csv", schema=SCHEMA)
    during_staging(lambda: copy_into(spark, DeltaLog.for_table(table), statement))
    result = copy()  # each of the two is to make the table
    assert (result.version, result.committed, result.attempts) == (1, True, 2)
    assert reference_rows() == [(1, "a"), (2, "b")]
    assert copy().committed is False
    assert copy_into(spark, DeltaLog.for_table(table), statement).committed is False


def test_a_commit_of_an_earlier_try_is_found_by_its_token(copy, folder, reference_rows):
    folder.put("a.csv", "1,a")
    origin = Origin(token="t" * 32)
    first = copy(origin=origin, start_version=-1)
    folder.put("b.csv", "2,b")  # of a later load
    again = copy(origin=origin, start_version=-1)
    assert (again.version, again.already_committed, again.metrics["numSourceFiles"]) == (first.version, True, 1)
    assert reference_rows() == [(1, "a")]


def test_what_fails_behind_the_commit_does_not_delete_its_files(copy, folder, reference_rows, monkeypatch):
    def refuse(*_, **__):
        raise StorageAccessError(uri="t", detail="the commit is made, and now nothing goes any more")

    monkeypatch.setattr("airflow_delta.spark.write.copy_into.sweep_loaded_files", refuse)
    folder.put("a.csv", "1,a")
    with pytest.raises(StorageAccessError):
        copy()
    assert reference_rows() == [(1, "a")]


@pytest.mark.parametrize(
    ("statement", "good", "bad", "reason"),
    [
        ({}, "1,a", "x,y,z", r"a row does not fit the columns \(.*Malformed CSV record: x,y,z.*name a rescued_column"),
        ({}, "1,a", "x,y", r"a row does not fit the columns \(For input string: \"x\"\); correct it, or name a rescued_column"),
        ({"format": "json", "schema": SCHEMA}, '{"id": 1}', '{"id": ', r"Unexpected end-of-input"),
        ({"format": "parquet", "schema": SCHEMA}, None, "PAR1 and nothing else", r"is not a Parquet file"),
        ({"format": "parquet", "schema": None}, None, "PAR1 and nothing else", r"is not a Parquet file"),
    ],
    ids=["csv, a value too many", "csv, no number", "json", "parquet", "parquet, without columns"],
)
def test_a_broken_file_among_good_ones_is_named_with_the_reason_and_not_tried_again(
    copy, folder, table, statement, good, bad, reason
):
    folder.put("bad", bad)
    folder.put("good", good) if good else pq.write_table(pa.table({"id": [1]}), folder.root / "good")
    with pytest.raises(SourceUnreadableError, match=reason) as caught:
        copy(**statement)
    assert (Path(caught.value.source).name, caught.value.retryable) == ("bad", False)
    assert not DeltaLog.for_table(table).exists()


def test_a_file_in_which_a_column_has_another_type_is_named_and_not_tried_again(copy, folder, table):
    folder.root.mkdir()
    for name, values in {"a.parquet": [1], "b.parquet": ["x"]}.items():
        pq.write_table(pa.table({"id": values}), folder.root / name)
    with pytest.raises(SourceUnreadableError, match=r"Parquet column \[id\]\. Expected Spark type .*by schema") as caught:
        copy(format="parquet", schema="id BIGINT")
    assert (Path(caught.value.source).name, caught.value.retryable) == ("b.parquet", False)
    with pytest.raises(SourceUnreadableError, match=r"STRUCT<id: \w+> and STRUCT<id: \w+>; name .* by schema") as caught:
        copy(format="parquet")
    assert (Path(caught.value.source), caught.value.retryable) == (folder.root, False)
    assert not DeltaLog.for_table(table).exists()


def test_names_with_a_colon_are_files_like_others(copy, folder, reference_rows, spark):
    folder.put("2026-11-23T10:00:00/a.csv", "1,a")
    folder.put("at 10:00:00.csv", "2,b")
    if is_connect(spark):  # the folder's own name looks like a pattern
        with pytest.raises(SourceUnreadableError, match="no pattern with a colon"):
            copy()
        return
    assert copy().metrics["numSourceFiles"] == 2
    assert reference_rows() == [(1, "a"), (2, "b")]


def test_csv_files_whose_headers_differ_are_refused_when_the_columns_come_from_them(copy, folder, table, reference_rows):
    folder.put("a.csv", "id,text", "1,a")
    folder.put("b.csv", "text,id", "b,2")
    header = {"schema": None, "options": {"header": "true"}}
    with pytest.raises(SourceUnreadableError, match=r"CSV header does not conform.*Header: (text, id|id, text)"):
        copy(**header)
    assert not DeltaLog.for_table(table).exists()
    folder.put("b.csv", "ID,Text", "2,b")
    assert copy(**header).committed
    assert reference_rows() == [("1", "a"), ("2", "b")]


def test_csv_headers_in_which_a_name_is_missing_fit_as_spark_names_it(copy, folder, reference_rows):
    for number, name in enumerate("ab"):
        folder.put(f"{name}.csv", ",text", f"{number},{name}")
    assert copy(schema=None, options={"header": "true"}).committed
    assert reference_rows(order="text") == [("0", "a"), ("1", "b")]


def test_columns_of_headers_and_of_folders_are_one_schema(copy, folder, reference_rows):
    for day in ("2026-11-22", "2026-11-23"):
        folder.put(f"day={day}/a.csv", "id,text", f"{day[-2:]},a")
    assert copy(schema=None, options={"header": "true", "inferSchema": "true"}, rescued_column="_rescued").committed
    rows = [(22, "a", date(2026, 11, 22), None), (23, "a", date(2026, 11, 23), None)]
    assert reference_rows(columns="id, text, day, _rescued") == rows


def test_a_file_without_a_byte_is_loaded_when_it_has_some(copy, folder, reference_rows):
    folder.put("a.csv", "1,a")
    folder.put("b.csv")
    assert copy().metrics["numSourceFiles"] == 1
    folder.put("b.csv", "2,b")
    assert copy().metrics["numSourceFiles"] == 1
    assert reference_rows() == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("path", "statement", "text"),
    [
        ("a.csv", {}, r"that of a folder, found .*a\.csv; name the folder above it, and pattern='a\.csv'"),
        ("*.csv", {}, r"pattern='\*\.csv'"),
        ("", {"rescued_column": "_rescued", "select": ["id"]}, "select leaves out the rescued_column '_rescued'"),
    ],
    ids=["a file", "a glob", "rescued rows that nobody gets"],
)
def test_what_would_load_nothing_or_lose_rows_is_refused(spark, folder, table, path, statement, text):
    folder.put("a.csv", "1,a")
    given = CopyIntoStatement(table=table, path=f"{folder.root}/{path}".rstrip("/"), format="csv", schema=SCHEMA, **statement)
    with pytest.raises(InvalidStatementError, match=text):
        copy_into(spark, DeltaLog.for_table(table), given)


def test_a_session_that_ignores_broken_files_does_not_make_them_count_as_loaded(spark, copy, folder, table):
    folder.put("bad", "PAR1 and nothing else")
    name = "spark.sql.files.ignoreCorruptFiles"
    spark.conf.set(name, "true")
    try:
        with pytest.raises(SourceUnreadableError, match="is not a Parquet file"):
            copy(format="parquet", schema="id BIGINT")
    finally:
        spark.conf.unset(name)


@pytest.mark.parametrize("format_", ["avro", "no_such_format"])
def test_a_format_that_spark_does_not_have_is_told(copy, folder, format_):
    folder.put("a", "x")
    with pytest.raises(SourceUnreadableError, match=r"(?i)avro|does not have its format no_such_format; csv, json"):
        copy(format=format_)
