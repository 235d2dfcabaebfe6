"""Names are resolved as Spark resolves them: the very same first, else the only one that differs in case by Java's rule."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

import airflow_delta
from airflow_delta.core.actions import removes_of
from airflow_delta.core.data_files.conform import conform
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ConcurrentAppendError, DeltaError, InvalidPredicateError
from airflow_delta.core.predicate import Column, parse_predicate
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import LONG
from airflow_delta.core.transaction.operation import Operation
from tests.core.builders import HandmadeLog, add, metadata, protocol, schema_string

PAIRS = [("straße", "strasse"), ("İd", "id"), ("\u017fet", "set"), ("ﬁeld", "field"), ("\u0390", "\u03b9\u0308\u0301")]
"""Names that ``casefold`` (or ``upper``) would mix up, and Java's ``toLowerCase`` does not."""


def struct(*names):
    return StructType(tuple(StructField(name, LONG) for name in names))


@pytest.mark.parametrize("pair", PAIRS)
def test_names_that_only_casefold_mixes_up_are_two_columns(pair):
    both = struct(*pair)
    for position, name in enumerate(pair):
        assert both.find(name) is both.fields[position]
        assert both.find(name.lower()) is both.fields[position]
        assert struct(pair[1 - position]).find(name) is None
        assert both.without((name,)).names == (pair[1 - position],)


@pytest.mark.parametrize(
    ("name", "spelled"), [("STRAßE", "straße"), ("ΌΣΟΣ", "όσος"), ("İ", "i̇"), ("K", "K"), ("ÅNGSTRÖM", "ångström")]
)
def test_a_name_in_another_case_is_found(name, spelled):
    assert struct(name).find(spelled).name == name
    assert struct(spelled).find(name).name == spelled


def test_the_exact_name_wins_and_another_case_of_two_names_is_ambiguous():
    schema = struct("Id", "ID", "other")
    assert [schema.find(name).name for name in ("ID", "Id")] == ["ID", "Id"]
    with pytest.raises(DeltaError, match=r"the name 'id' is ambiguous: ignoring case, it matches Id; ID"):
        schema.find("id")
    with pytest.raises(InvalidPredicateError, match="the name 'id' is ambiguous"):
        parse_predicate("id = 1", schema, "t")
    assert parse_predicate("ID = 1", schema, "t").column == Column("ID")


def test_a_column_of_a_file_is_not_taken_for_another_that_only_casefold_finds_equal():
    rows = pa.table({"strasse": [1, 2]})
    conformed = conform(rows, pa.schema([("straße", pa.int64()), ("STRASSE", pa.int64())]))
    assert conformed.to_pydict() == {"straße": [None, None], "STRASSE": [1, 2]}


def test_a_column_of_a_file_that_may_be_either_of_two_is_refused():
    rows = pa.table({"Id": [1], "iD": [2]})
    with pytest.raises(pa.ArrowInvalid, match="2 columns of the file differ from 'ID' in case only"):
        conform(rows, pa.schema([("ID", pa.int64())]))


@pytest.fixture
def two_streets():
    """Files with statistics of both columns: ``straße`` 1 to 2, ``strasse`` 10 to 20."""

    def file(path, shift=0):
        stats = {
            "numRecords": 2,
            "minValues": {"straße": 1 + shift, "strasse": 10 + shift},
            "maxValues": {"straße": 2 + shift, "strasse": 20 + shift},
            "nullCount": {"straße": 0, "strasse": 0},
        }
        action = add(path)
        action["add"]["stats"] = json.dumps(stats)
        return action

    schema = schema_string(straße="long", strasse="long")
    handmade = HandmadeLog()
    isolation = {"delta.isolationLevel": "Serializable"}
    handmade.commit(protocol(), metadata(schema, **isolation), file("a"), file("b", shift=100))
    return handmade, file


@pytest.mark.parametrize(
    ("where", "paths"), [("strasse = 15", ["a"]), ("STRASSE = 115", ["b"]), ("Straße = 2", ["a"]), ("straße = 15", [])]
)
def test_files_are_pruned_by_the_statistics_of_the_column_that_is_named(two_streets, where, paths):
    handmade, _ = two_streets
    assert handmade.log.snapshot().files(where, ["path"])["path"].to_pylist() == paths


def test_a_serializable_delete_meets_an_append_to_the_column_that_it_reads(two_streets):
    handmade, file = two_streets
    log = handmade.log
    transaction = log.start_transaction()
    transaction.record_read("strasse = 15")
    removes = removes_of(log.snapshot().files("strasse = 15"), deletion_timestamp=1, data_change=True)
    handmade.commit({"commitInfo": {"operation": "WRITE", "isBlindAppend": True}}, file("c"))
    with pytest.raises(ConcurrentAppendError):
        transaction.commit(operation=Operation(name="DELETE"), removes=removes)


def test_rows_of_columns_that_only_casefold_mixes_up_come_back_right(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    rows = pa.table({"straße": [1, 2, 3], "strasse": [10, 20, 30]})
    deltalake.write_deltalake(tmp_path, rows)
    snapshot = DeltaLog.for_table(str(tmp_path)).snapshot()
    assert snapshot.to_arrow(["strasse"], "STRASSE >= 20").read_all().to_pydict() == {"strasse": [20, 30]}


def test_names_are_folded_by_one_rule_only():
    package = Path(airflow_delta.__file__).parent
    folding = [file.name for file in package.rglob("*.py") if "casefold()" in file.read_text()]
    assert folding == []
