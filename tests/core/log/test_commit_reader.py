import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.actions import ADD_FILE, REMOVE_FILE
from airflow_delta.core.errors import CorruptLogError, LogGapError
from airflow_delta.core.log.commit_reader import VERSION, read_commit, read_commit_info, read_commits
from airflow_delta.core.log.file_names import commit_path
from tests.core.builders import HandmadeLog, add, metadata, protocol, remove, vector


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
    assert [(each.app_id, each.version, each.last_updated) for each in commit.transactions] == [("a", 3, 4)]
    assert [each.domain for each in commit.domains] == ["d"]


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
    handmade = HandmadeLog().commit(add("x", deletionVector={**vector("uuid", 4), "maxRowIndex": 3}))
    assert read_commit(handmade.store, 0).adds["deletion_vector"].to_pylist() == [
        {"storage_type": "u", "path_or_inline_dv": "uuid", "offset": 4, "size_in_bytes": 1, "cardinality": 1}
    ]


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    st.lists(st.dictionaries(st.sampled_from(["p", "q", "ü\"{}'\n"]), st.none() | TEXT), max_size=4),
    st.lists(st.none() | st.dictionaries(TEXT, TEXT, max_size=3), max_size=4),
)
def test_maps_come_back_whatever_their_keys_and_values_hold(partitions, tags):
    handmade = HandmadeLog()
    handmade.commit(*(add(f"p{number}", partitionValues=values) for number, values in enumerate(partitions)))
    handmade.commit(*(add(f"t{number}", tags=values) for number, values in enumerate(tags)))
    adds = read_commits(handmade.store, [0, 1]).adds
    found = [dict(each) for each in adds["partition_values"].to_pylist()][: len(partitions)]
    # A missing key is a null one, so nulls of keys that other files have do not count.
    assert [{key: value for key, value in each.items() if value is not None} for each in found] == [
        {key: value for key, value in each.items() if value is not None} for each in partitions
    ]
    assert [each if each is None else dict(each) for each in adds["tags"].to_pylist()][len(partitions) :] == tags


def test_partition_columns_that_come_with_a_later_metadata_are_known():
    first = [add(f"x{number}", partitionValues={"p": "1"}) for number in range(200)]
    handmade = HandmadeLog().commit(protocol(), metadata(None, ("p",)), *first)
    handmade.commit(metadata(None, ("q", "r")), add("y", partitionValues={"q": "2", "r": "3"}))
    values = read_commits(handmade.store, [0, 1]).adds["partition_values"].to_pylist()
    assert {key: value for key, value in values[0] if value} == {"p": "1"}
    assert {key: value for key, value in values[-1] if value} == {"q": "2", "r": "3"}


def test_partition_columns_are_found_though_most_files_leave_them_out():
    """Delta-Spark writes no key for a null value."""
    handmade = HandmadeLog().create(partition_columns=("p", "q"))
    for version, values in enumerate(({}, {"p": "1"}, {"q": "2"}), 1):
        handmade.commit(*(add(f"{version}-{number}", partitionValues=values) for number in range(150)))
    for versions in (range(4), range(1, 4)):
        adds = read_commits(handmade.store, versions).adds
        found = [{key: value for key, value in each if value} for each in adds["partition_values"].to_pylist()]
        assert found == [{}] * 150 + [{"p": "1"}] * 150 + [{"q": "2"}] * 150


def test_many_commits_tell_the_version_of_each_file_and_the_last_of_each_small_action():
    handmade = HandmadeLog().create(add("a"), {"txn": {"appId": "x", "version": 9}})
    handmade.commit({"commitInfo": {"operation": "WRITE"}}, add("b"), remove("a"), {"txn": {"appId": "x", "version": 3}})
    handmade.commit(metadata(None, (), later="yes"), {"domainMetadata": {"domain": "d", "configuration": "", "removed": True}})
    batch = read_commits(handmade.store, [0, 1, 2])
    assert list(zip(*batch.adds.select(["path", VERSION.name]).to_pydict().values(), strict=True)) == [("a", 0), ("b", 1)]
    assert batch.removes[VERSION.name].to_pylist() == [1]
    assert batch.transactions["x"].version == 3  # the later commit counts, not the larger number
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


def test_a_commit_without_commit_info_tells_nobody():
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
    assert [each.version for each in handmade.log.history()] == [1, 0]


@pytest.mark.parametrize(
    "line", [b"null", b" null ", b"7", b"[]", b'{"future":1}\xff', b'{"fut\xffure":1}', b'{"add":{"p\xffath":"b"}}']
)
def test_a_line_that_is_no_object_or_no_text_is_corrupt(line):
    made = HandmadeLog().create(add("a"))
    made.store.write(commit_path(1), line + b"\n")
    with pytest.raises(CorruptLogError) as caught:
        made.log.snapshot()
    assert caught.value.file == commit_path(1)
