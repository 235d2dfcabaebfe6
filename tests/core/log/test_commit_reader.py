import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.actions import ADD_FILE, REMOVE_FILE
from airflow_delta.core.errors import CorruptLogError, LogGapError
from airflow_delta.core.log.commit_reader import VERSION, read_commit, read_commit_info, read_commits
from airflow_delta.core.log.file_names import commit_path
from tests.core.builders import HandmadeLog, add, deletion_vector, metadata, protocol, remove


def test_a_commit_is_read_whole():
    handmade = HandmadeLog().commit(
        {"commitInfo": {"timestamp": 5, "operation": "WRITE", "txnId": "t", "operationMetrics": {"numFiles": "1"}}},
        protocol(3, 7, readerFeatures=["timestampNtz"], writerFeatures=["timestampNtz"]),
        metadata(None, ("p",), a="b"),
        add("p=1/x", partitionValues={"p": "1"}, size=7, modificationTime=8, stats='{"numRecords":1}', tags={"k": "v"}),
        remove("y", deletionTimestamp=9, partitionValues={"p": None}, extendedFileMetadata=True),
        {"txn": {"appId": "a", "version": 3, "lastUpdated": 4}},
        {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    )
    commit = read_commit(handmade.store, 0)
    assert (commit.commit_info.operation, commit.commit_info.txn_id) == ("WRITE", "t")
    assert commit.protocol.reader_features == {"timestampNtz"}
    assert (commit.metadata.partition_columns, commit.metadata.configuration) == (("p",), {"a": "b"})
    assert commit.adds.schema == ADD_FILE
    assert commit.adds.to_pylist() == [
        {
            "path": "p=1/x",
            "partition_values": [("p", "1")],
            "size": 7,
            "modification_time": 8,
            "data_change": True,
            "stats": '{"numRecords":1}',
            "tags": [("k", "v")],
            "deletion_vector": None,
            "base_row_id": None,
            "default_row_commit_version": None,
            "clustering_provider": None,
        }
    ]
    assert commit.removes.schema == REMOVE_FILE
    assert commit.removes.select(["path", "deletion_timestamp", "partition_values"]).to_pylist() == [
        {"path": "y", "deletion_timestamp": 9, "partition_values": [("p", None)]}
    ]
    assert [(transaction.app_id, transaction.version, transaction.last_updated) for transaction in commit.transactions] == [
        ("a", 3, 4)
    ]
    assert [domain.domain for domain in commit.domains] == ["d"]


def test_unknown_actions_and_fields_are_ignored_and_null_is_absent():
    handmade = HandmadeLog().commit(
        {"checkpointMetadata": {"x": [1, {"y": "z"}]}},
        {"add": {**add("x")["add"], "future": {"a": [1]}, "stats": None, "deletionVector": None, "tags": None}},
        {"add": None, "remove": None, "txn": None, "protocol": None},
        {},
    )
    commit = read_commit(handmade.store, 0)
    assert commit.adds["path"].to_pylist() == ["x"]
    assert commit.adds["tags"].to_pylist() == [None]
    assert commit.protocol is None
    assert commit.transactions == ()


def test_integers_beyond_the_53_bits_of_a_float_stay_exact():
    handmade = HandmadeLog().commit(add("x", size=2**53 + 1, baseRowId=2**63 - 1))
    adds = read_commit(handmade.store, 0).adds
    assert adds["size"].to_pylist() == [2**53 + 1]
    assert adds["base_row_id"].to_pylist() == [2**63 - 1]


def test_a_line_longer_than_a_block_is_read():
    stats = json.dumps({"maxValues": {"s": "x" * (9 << 20)}})
    handmade = HandmadeLog().commit(add("a"), add("long", stats=stats), add("b"))
    assert read_commit(handmade.store, 0).adds["stats"].to_pylist() == [None, stats, None]


def test_a_deletion_vector_keeps_its_fields():
    handmade = HandmadeLog().commit(add("x", deletionVector={**deletion_vector("uuid", 4), "maxRowIndex": 3}))
    assert read_commit(handmade.store, 0).adds["deletion_vector"].to_pylist() == [
        {"storage_type": "u", "path_or_inline_dv": "uuid", "offset": 4, "size_in_bytes": 1, "cardinality": 1}
    ]


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


MAPS = st.dictionaries(st.sampled_from(["p", "q", "ü\"{}'\n"]) | TEXT, st.none() | TEXT, max_size=3)


@given(st.lists(MAPS, max_size=4), st.lists(MAPS, max_size=4), st.lists(st.none() | MAPS, max_size=4), st.booleans())
def test_maps_come_back_with_exactly_their_keys(adds, removes, tags, is_ascii):
    def line(action):
        return json.dumps(action, ensure_ascii=is_ascii, separators=(",", ":") if is_ascii else None)

    handmade = HandmadeLog().create()
    handmade.commit(*(line(add(f"a{number}", partitionValues=values)) for number, values in enumerate(adds)))
    handmade.commit(*(line(remove(f"r{number}", partitionValues=values)) for number, values in enumerate(removes)))
    handmade.commit(*(line(add(f"t{number}", stats="{}", tags=values)) for number, values in enumerate(tags)))
    batch = read_commits(handmade.store, range(4))

    def maps(column):
        return [value if value is None else dict(value) for value in column.to_pylist()]

    assert maps(batch.adds["partition_values"]) == adds + [{}] * len(tags)
    assert maps(batch.removes["partition_values"]) == removes
    assert maps(batch.adds["tags"])[len(adds) :] == tags


@pytest.mark.parametrize(
    "line",
    [
        '{"add":{"path":"x","partitionValues":{"p":null,"q":"1"},"size":1,"tags":{"t":"2"}}}',
        ' { "add" : { "path" : "x" , "partitionValues" : { "p" : null , "q" : "1" } , "tags" : { "t" : "2" } } }',
        '{"add":{"tags":{"t":"2"},"partitionValues":{"p":null,"q":"1"},"path":"x"}}',
        '{"add":{"path":"x","partition\\u0056alues":{"p":null,"q":"1"},"t\\u0061gs":{"t":"2"}}}',
        '{"add":{"path":"x","new":{"a":[{"partitionValues":{"no":"1"}}]},"partitionValues":{"p":null,"q":"1"},"tags":{"t":"2"}}}',
        '{"txn":null,"add":{"path":"x","partitionValues":{"p":null,"q":"1"},"tags":{"t":"2"}}}',
        '{"add":{"path":"\\"partitionValues\\":{\\"no\\":\\"1\\"}","partitionValues":{"p":null,"q":"1"},"tags":{"t":"2"}}}',
        '{"add":{"path":"x","partitionValues":{"p":null,"q":"1"},"tags":{"t":"2"}},"remove":{"path":"y","partitionValues":{"r":"3"}}}',
        '{"remove":{"path":"y","partitionValues":{"r":"3"}},"add":{"path":"x","partitionValues":{"p":null,"q":"1"},"tags":{"t":"2"}}}',
    ],
)
def test_maps_are_those_of_their_action_however_a_line_is_spelled(line):
    commit = read_commit(HandmadeLog().create().commit(line).store, 1)
    assert commit.adds["partition_values"].to_pylist() == [[("p", None), ("q", "1")]]
    assert commit.adds["tags"].to_pylist() == [[("t", "2")]]
    assert commit.removes["partition_values"].to_pylist() == ([[("r", "3")]] if "remove" in line else [])


def test_change_files_keep_exactly_their_partition_values():
    change = {"cdc": {"path": "x", "partitionValues": {"p": None}, "size": 1, "dataChange": False}}
    other = {"cdc": {"path": "y", "partitionValues": {"q": "1"}, "size": 1, "dataChange": False}}
    commit = read_commit(HandmadeLog().create().commit(change, other).store, 1)
    assert commit.changes["partition_values"].to_pylist() == [[("p", None)], [("q", "1")]]


@pytest.mark.parametrize(
    "values", ['{"p":"1","p":"2"}', '{"p":1}', '{"p":true}', '{"p":["1"]}', '{"p":{"q":"1"}}', "[]", '"p"']
)
@pytest.mark.parametrize(
    "prefix", ['{"add":{"path":"x","partitionValues":', '{"add":{"other":{"a":[]},"path":"x","partitionValues":']
)
def test_partition_values_that_are_not_a_map_of_texts_are_corrupt(prefix, values):
    handmade = HandmadeLog().create(add("a")).commit(add("b"), f"{prefix}{values}}}}}", add("c"))
    with pytest.raises(CorruptLogError, match="line 2: ") as caught:
        read_commit(handmade.store, 1)
    assert caught.value.file == commit_path(1)


def test_many_commits_tell_the_version_of_each_file_and_the_last_of_each_small_action():
    handmade = HandmadeLog().create(add("a"), {"txn": {"appId": "x", "version": 9}})
    handmade.commit({"commitInfo": {"operation": "WRITE"}}, add("b"), remove("a"), {"txn": {"appId": "x", "version": 3}})
    handmade.commit(metadata(None, (), later="yes"), {"domainMetadata": {"domain": "d", "configuration": "", "removed": True}})
    batch = read_commits(handmade.store, [0, 1, 2])
    assert list(zip(*batch.adds.select(["path", VERSION.name]).to_pydict().values(), strict=True)) == [("a", 0), ("b", 1)]
    assert batch.removes[VERSION.name].to_pylist() == [1]
    assert batch.transactions["x"].version == 3  # the later commit wins, not the larger number
    assert batch.metadata.configuration == {"later": "yes"}
    assert batch.domains["d"].removed
    assert batch.commit_info is None  # the last commit has none


def test_two_batches_in_a_row_are_one():
    handmade = HandmadeLog().create(add("a")).commit(add("b"), metadata(None, (), x="1")).commit(remove("a"))
    whole = read_commits(handmade.store, range(3))
    halves = read_commits(handmade.store, [0]).followed_by(read_commits(handmade.store, [1, 2]))
    assert halves.adds.to_pylist() == whole.adds.to_pylist()
    assert halves.removes.to_pylist() == whole.removes.to_pylist()
    assert (halves.metadata, halves.protocol) == (whole.metadata, whole.protocol)


def test_empty_lines_and_an_empty_file_say_nothing():
    handmade = HandmadeLog().commit().commit("", json.dumps(add("x")), " \r", "")
    batch = read_commits(handmade.store, [0, 1])
    assert batch.adds["path"].to_pylist() == ["x"]


@pytest.mark.parametrize(
    "line",
    [
        '{"add":{"path":"x","partitionValues":{},"size":1',
        '{"add":{"path":1}}',
        '{"add":{"size":1}}',
        '{"add":{"path":"x","size":"many"}}',
        '{"add":{"path":"x"}}{"add":{"path":"y"}}',
        '{"remove":{"deletionTimestamp":1}}',
        '{"commitInfo":{"timestamp":',
        '{"protocol":{"minReaderVersion":"three"}}',
        '{"metaData":{"id":"x"}}',
        "[1]",
        "PAR1\x00\x01",
    ],
)
def test_a_corrupt_line_is_an_error_that_names_file_and_line(line):
    handmade = HandmadeLog().create(add("a")).commit(json.dumps(add("b")), line, json.dumps(add("c")))
    with pytest.raises(CorruptLogError) as caught:
        read_commits(handmade.store, [0, 1])
    assert caught.value.file == "_delta_log/00000000000000000001.json"
    assert caught.value.detail.startswith("line 2: ")


def test_text_that_is_not_utf8_is_corrupt():
    handmade = HandmadeLog().create(add("a"))
    handmade.store.write("_delta_log/00000000000000000001.json", b'{"add":{"path":"\xff\xfe"}}')
    with pytest.raises(CorruptLogError) as caught:
        read_commits(handmade.store, [0, 1])
    assert caught.value.file == "_delta_log/00000000000000000001.json"
    assert caught.value.detail.startswith("line 1: ")


def test_a_missing_commit_is_a_gap():
    with pytest.raises(LogGapError) as caught:
        read_commits(HandmadeLog().create().store, [0, 1])
    assert caught.value.file == "_delta_log/00000000000000000001.json"


def test_who_made_a_commit_is_read_without_its_files():
    handmade = HandmadeLog().commit('{"add":{"broken', {"commitInfo": {"operation": "MERGE", "airflowDelta": {"token": "t"}}})
    info = read_commit_info(handmade.store, 0)
    assert (info.operation, info.origin.token) == ("MERGE", "t")


def test_a_commit_without_commit_info_names_no_author():
    assert read_commit_info(HandmadeLog().create().store, 0) is None


@pytest.mark.parametrize(
    "anything",
    [
        "a text",
        ["a", "list"],
        {"timestamp": "2020-01-01", "operation": 5, "operationParameters": ["x"], "operationMetrics": "none", "txnId": 1},
        {"timestamp": 1e400, "readVersion": "3", "isBlindAppend": "true", "job": "nightly", "airflowDelta": "mine"},
    ],
)
def test_whatever_a_writer_says_about_itself_the_table_is_read(anything):
    handmade = HandmadeLog().create(add("a")).commit({"commitInfo": anything}, add("b"))
    info = handmade.log.snapshot().commit_info
    assert handmade.paths() == ["a", "b"]
    assert (info.timestamp, info.operation, info.read_version, info.is_blind_append) == (0, "UNKNOWN", None, None)
    assert (info.operation_parameters, info.operation_metrics, info.txn_id, info.origin.token) == ({}, {}, None, None)
    assert [entry.version for entry in handmade.log.history()] == [1, 0]


@pytest.mark.parametrize(
    "line", [b"null", b" null ", b"7", b"[]", b'{"future":1}\xff', b'{"fut\xffure":1}', b'{"add":{"p\xffath":"b"}}']
)
def test_a_line_that_is_no_object_or_no_text_is_corrupt(line):
    made = HandmadeLog().create(add("a"))
    made.store.write(commit_path(1), line + b"\n")
    with pytest.raises(CorruptLogError) as caught:
        made.log.snapshot()
    assert caught.value.file == commit_path(1)
