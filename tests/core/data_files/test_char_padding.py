"""CHAR(n) is returned padded, also when nested; the expected values are those of Spark 4.2's ``readSidePadding``."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidPredicateError, UnsupportedTypeError
from airflow_delta.core.predicate import is_exact, parse_predicate

CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "p": ["x", "x  ", None, "xyzuvw"],
        "c": ["ab", "ab   ", None, "äö日"],
        "v": ["ab", "b", None, "c"],
        "s": [
            {"c": "a", "n": {"d": "b", "i": 1}},
            {"c": None, "n": None},
            None,
            {"c": "long one", "n": {"d": "b ", "i": None}},
        ],
        "l": [["a", None, "bc"], [], None, ["d"]],
        "m": pa.array([[("k", "v")], [("kk", None)], None, []], pa.map_(pa.string(), pa.string())),
    }
)
DECLARED = {
    "p": "char(3)",
    "c": "CHAR(5)",
    "v": "varchar(5)",
    "s": "struct<c:char(2),n:struct<d:char(3),i:int>>",
    "l": "array<char(2)>",
    "m": "map<char(2),varchar(4)>",
}


def declare(path, declared):
    """Set the declared types of the columns in the log."""
    commit = path / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    metadata = next(action["metaData"] for action in actions if "metaData" in action)
    schema = json.loads(metadata["schemaString"])
    for field in schema["fields"]:
        field["metadata"] = {CHAR_VARCHAR: declared[field["name"]]} if field["name"] in declared else {}
    metadata["schemaString"] = json.dumps(schema)
    commit.write_text("\n".join(map(json.dumps, actions)))
    return DeltaLog.for_table(str(path)).snapshot()


@pytest.fixture
def snapshot(tmp_path):
    write_deltalake(tmp_path, ROWS, partition_by=["p"])
    return declare(tmp_path, DECLARED)


def rows(snapshot, **arguments):
    return sorted(snapshot.to_arrow(**arguments).read_all().to_pylist(), key=lambda row: row["id"])


def test_char_is_padded_at_any_depth_and_in_partitions(snapshot):
    assert rows(snapshot) == [
        {
            "id": 1,
            "p": "x  ",
            "c": "ab   ",
            "v": "ab",
            "s": {"c": "a ", "n": {"d": "b  ", "i": 1}},
            "l": ["a ", None, "bc"],
            "m": [("k ", "v")],
        },
        {"id": 2, "p": "x  ", "c": "ab   ", "v": "b", "s": {"c": None, "n": None}, "l": [], "m": [("kk", None)]},
        {"id": 3, "p": None, "c": None, "v": None, "s": None, "l": None, "m": None},
        {
            "id": 4,
            "p": "xyzuvw",
            "c": "äö日  ",
            "v": "c",
            "s": {"c": "long one", "n": {"d": "b  ", "i": None}},
            "l": ["d "],
            "m": [],
        },
    ]


def test_slices_and_selections_are_padded_as_the_whole(snapshot):
    found = rows(snapshot, columns=["c", "id"], where="id >= 2 AND v IS NOT NULL")
    assert found == [{"c": "ab   ", "id": 2}, {"c": "äö日  ", "id": 4}]
    assert [row["l"] for row in rows(snapshot, where="id > 3")] == [["d "]]


@pytest.mark.parametrize("where", ["c = 'ab'", "c IN ('ab')", "c LIKE 'ab%'", "s.c = 'a '", "s.n.d < 'b'", "p = 'x'"])
def test_what_is_padded_is_not_decided_by_statistics_or_bytes(snapshot, where):
    assert not is_exact(parse_predicate(where, snapshot.schema, "t"))
    assert len(snapshot.files(where)) == 4
    with pytest.raises(InvalidPredicateError, match="only Spark can decide it"):
        rows(snapshot, where=where)


def test_other_members_of_a_struct_that_holds_a_char_are_decided(snapshot):
    assert [row["id"] for row in rows(snapshot, where="s.n.i = 1 AND v = 'ab' AND c IS NOT NULL")] == [1]


@pytest.mark.parametrize(
    ("declared", "members"),
    [
        ("struct<c:char(2),n:struct<d:char(3),i:int>,gone:int>", {"c": "a ", "n": {"d": "b  ", "i": 1}}),
        ("struct<`former`:char(2),n:string>", {"c": "a ", "n": {"d": "b", "i": 1}}),
        ("char(7)", {"c": "a", "n": {"d": "b", "i": 1}}),
        ("struct<c:char(2", {"c": "a", "n": {"d": "b", "i": 1}}),
        ("array<char(4)>", {"c": "a", "n": {"d": "b", "i": 1}}),
        ("map<char(4)>", {"c": "a", "n": {"d": "b", "i": 1}}),
    ],
)
def test_a_declared_type_that_does_not_fit_the_column_pads_what_fits(tmp_path, declared, members):
    write_deltalake(tmp_path, ROWS)
    assert rows(declare(tmp_path, {"s": declared}))[0]["s"] == members


def test_a_length_that_would_take_all_memory_is_refused(tmp_path):
    write_deltalake(tmp_path, ROWS)
    with pytest.raises(UnsupportedTypeError, match=r"char\(2000000000\)"):
        rows(declare(tmp_path, {"c": "char(2000000000)"}))


def test_a_long_file_is_padded_batch_by_batch(tmp_path):
    many = pa.table({"id": range(100_000), "l": [[str(number % 10), None] for number in range(100_000)]})
    write_deltalake(tmp_path, many)
    snapshot = declare(tmp_path, {"l": "array<char(3)>"})
    found = snapshot.to_arrow(["l"], "id >= 99998").read_all()["l"].to_pylist()
    assert found == [["8  ", None], ["9  ", None]]
    assert pq.read_table(DeltaTable(str(tmp_path)).file_uris()[0]).num_rows == 100_000
