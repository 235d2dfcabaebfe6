"""The content of a commit file as Python's JSON parser and other engines read it."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.actions import (
    ADD_FILE,
    CHANGE_FILE,
    REMOVE_FILE,
    CommitActions,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Origin,
    Protocol,
    SetTransaction,
    removes_of,
)
from airflow_delta.core.log.commit_reader import read_commit
from airflow_delta.core.log.commit_writer import commit_json
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "n", "type": "long", "nullable": True, "metadata": {}},
            {"name": "p", "type": "string", "nullable": True, "metadata": {}},
        ],
    }
)
METADATA = Metadata(id="6e7a", schema_string=SCHEMA, partition_columns=("p",), configuration={"delta.appendOnly": "false"})

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INTEGER = st.integers(-(2**63), 2**63 - 1)
DELETION_VECTOR = st.fixed_dictionaries(
    {
        "storage_type": st.sampled_from("uip"),
        "path_or_inline_dv": TEXT,
        "offset": st.none() | st.integers(0, 2**31 - 1),
        "size_in_bytes": st.integers(0, 2**31 - 1),
        "cardinality": INTEGER,
    }
)
PARTITION = st.dictionaries(TEXT, st.none() | TEXT, max_size=3).map(lambda mapping: list(mapping.items()))
TAGS = st.none() | st.dictionaries(TEXT, TEXT, max_size=2).map(lambda mapping: list(mapping.items()))
ADD = st.fixed_dictionaries(
    {
        "path": TEXT,
        "partition_values": PARTITION,
        "size": INTEGER,
        "modification_time": INTEGER,
        "data_change": st.booleans(),
        "stats": st.none() | TEXT,
        "tags": TAGS,
        "deletion_vector": st.none() | DELETION_VECTOR,
        "base_row_id": st.none() | INTEGER,
        "default_row_commit_version": st.none() | INTEGER,
        "clustering_provider": st.none() | TEXT,
    }
)


def lines(content: bytes) -> list[dict]:
    return [json.loads(line) for line in content.decode().split("\n")[:-1]]


def camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def expected(row: dict) -> dict:
    """The expected log line of a row, computed in plain Python."""
    document = {}
    for name, value in row.items():
        if name == "deletion_vector" and value is not None:
            document["deletionVector"] = {camel(key): member for key, member in value.items() if member is not None}
        elif name in {"partition_values", "tags"} and value is not None:
            document[camel(name)] = dict(value)
        elif value is not None:
            document[camel(name)] = value
    return document


@pytest.fixture(params=[0, 16], ids=["as columns", "one by one"], scope="module", autouse=True)
def few(request):
    """Up to how many files count as few, which are rendered in a different way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_delta.core.log.commit_writer._FEW", request.param)
        yield


@given(st.lists(ADD, max_size=6), st.integers(0, 3))
def test_each_file_becomes_the_json_object_that_plain_python_would_make_of_it(rows: list[dict], skipped: int) -> None:
    adds = pa.Table.from_pylist(rows, schema=ADD_FILE).slice(min(skipped, len(rows)))

    content = commit_json(CommitActions(adds=adds))

    assert lines(content) == [{"add": expected(row)} for row in rows[skipped:]]


@given(st.lists(st.lists(ADD, max_size=3), max_size=4))
def test_a_table_in_pieces_is_written_as_one_whatever_pieces_have_no_rows(pieces: list[list[dict]]) -> None:
    adds = pa.concat_tables([pa.Table.from_pylist(rows, schema=ADD_FILE) for rows in [[], *pieces, []]])

    assert lines(commit_json(CommitActions(adds=adds))) == [{"add": expected(row)} for rows in pieces for row in rows]


@given(st.lists(st.none() | TAGS | PARTITION, max_size=4))
def test_maps_of_removed_and_changed_files_are_distinguished_when_null_and_when_empty(maps) -> None:
    removed = [{"path": "r", "data_change": True, "partition_values": mapping} for mapping in maps]
    changed = [
        {"path": "c", "partition_values": mapping or [], "size": 1, "data_change": False, "tags": mapping} for mapping in maps
    ]
    changes = pa.Table.from_pylist(changed, schema=CHANGE_FILE)

    content = commit_json(CommitActions(removes=pa.Table.from_pylist(removed, schema=REMOVE_FILE), changes=changes))

    assert lines(content) == [{"remove": expected(row)} for row in removed] + [{"cdc": expected(row)} for row in changed]


def test_the_commit_info_comes_first_and_every_action_has_its_line() -> None:
    adds = pa.Table.from_pylist([file("a.parquet")], schema=ADD_FILE)
    actions = CommitActions(
        commit_info=CommitInfo(timestamp=1, operation="WRITE", origin=Origin(token="t1", job={"jobId": "7"})),
        protocol=Protocol(min_reader_version=1, min_writer_version=2),
        metadata=METADATA,
        adds=adds,
        removes=removes_of(adds, deletion_timestamp=5, data_change=True),
        transactions=(SetTransaction(app_id="app", version=3),),
        domains=(DomainMetadata(domain="d", configuration="{}"),),
    )

    found = lines(commit_json(actions))

    assert [next(iter(line)) for line in found] == [
        "commitInfo", "protocol", "metaData", "txn", "domainMetadata", "remove", "add",
    ]  # fmt: skip
    assert found[0]["commitInfo"]["airflowDelta"] == {"token": "t1"}
    assert found[5]["remove"] == {
        "path": "a.parquet",
        "deletionTimestamp": 5,
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": {"p": None},
        "size": 10,
        "stats": '{"numRecords":3}',
    }


def test_what_is_written_is_read_back_the_same() -> None:
    store = InMemoryLogStore()
    rows = [
        file("a b%20.parquet", partition_values=[("p", 'say "hi" \\ \n\x01 é😀\u2028')]),
        file("b.parquet", partition_values=[("p", "")], stats=None, base_row_id=7),
        file("c.parquet", tags=[("ZCUBE_ID", "1")]),
    ]
    adds = pa.Table.from_pylist(rows, schema=ADD_FILE)
    removes = pa.Table.from_pylist([{"path": "d.parquet", "data_change": False, "deletion_timestamp": 9}], schema=REMOVE_FILE)
    store.write_if_absent(commit_path(0), commit_json(CommitActions(metadata=METADATA, adds=adds, removes=removes)))

    found = read_commit(store, 0)

    assert found.adds.to_pylist() == adds.to_pylist()
    assert found.removes.to_pylist() == removes.to_pylist()
    assert found.metadata == METADATA


def test_other_engines_read_the_commit(tmp_path, duckdb_connection) -> None:
    directory = tmp_path / "t" / "p=a b%25"
    directory.mkdir(parents=True)
    pq.write_table(pa.table({"n": pa.array([1, 2], pa.int64())}), directory / "f.parquet")
    pq.write_table(pa.table({"n": pa.array([3], pa.int64())}), tmp_path / "t" / "null.parquet")
    size = (directory / "f.parquet").stat().st_size
    adds = pa.Table.from_pylist(
        [
            file("p=a%20b%2525/f.parquet", partition_values=[("p", "a b%")], size=size, stats='{"numRecords":2}'),
            file("null.parquet", size=(tmp_path / "t" / "null.parquet").stat().st_size, stats=None),
        ],
        schema=ADD_FILE,
    )
    actions = CommitActions(
        commit_info=CommitInfo(timestamp=1, operation="WRITE", operation_parameters={"mode": "Append"}, is_blind_append=True),
        protocol=Protocol(min_reader_version=1, min_writer_version=2),
        metadata=METADATA,
        adds=adds,
        transactions=(SetTransaction(app_id="app", version=3, last_updated=1),),
    )
    log = tmp_path / "t" / "_delta_log"
    log.mkdir()
    (log / "00000000000000000000.json").write_bytes(commit_json(actions))
    rows = [(1, "a b%"), (2, "a b%"), (3, None)]

    table = DeltaTable(tmp_path / "t")
    assert sorted(zip(*table.to_pyarrow_table().select(["n", "p"]).to_pydict().values(), strict=True)) == rows
    assert table.history()[0]["operation"] == "WRITE"
    assert table.transaction_version("app") == 3
    assert duckdb_connection.sql(f"SELECT n, p FROM delta_scan('{tmp_path / 't'}') ORDER BY n").fetchall() == rows


def file(path: str, **values) -> dict:
    return {
        "path": path,
        "partition_values": [("p", None)],
        "size": 10,
        "modification_time": 1,
        "data_change": True,
        "stats": '{"numRecords":3}',
        **values,
    }
