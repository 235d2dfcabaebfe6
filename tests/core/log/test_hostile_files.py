"""Files below 1 MB that an attacker planted in a log: the cost of reading each is bounded, and the error names the file."""

import io
import json

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CorruptLogError, DeltaError, InvalidSchemaError
from tests.core.builders import CHECKPOINT, HandmadeLog, add, metadata, protocol
from tests.core.cost import assert_bounded, cost_of

LOG = "_delta_log"
SIZE = 900_000
COMMIT_1 = f"{LOG}/00000000000000000001.json"


def lines(*actions):
    return "\n".join(action if isinstance(action, str) else json.dumps(action) for action in actions).encode()


def nested(depth, inside="1"):
    return "[" * depth + inside + "]" * depth


def distinct_keys(member):
    return lines(*(add(f"p{number}", **{member: {f"key-{number}": "v"}}) for number in range(SIZE // 150)))


def long_schema(text):
    return lines({"metaData": {**metadata()["metaData"], "schemaString": text}})


DEEP_TYPE = '{"type":"array","containsNull":true,"elementType":' * 15_000 + '"long"' + "}" * 15_000
DEEP_SCHEMA = f'{{"type":"struct","fields":[{{"name":"a","nullable":true,"metadata":{{}},"type":{DEEP_TYPE}}}]}}'

REFUSED = {
    "a map that opens and never closes": (COMMIT_1, b'{"add":{"path":"x","tags":{' + b'"tags":{\\"' * 8_400),
    "one of partition values": (COMMIT_1, b'{"add":{"path":"x","tags":{' + b'"partitionValues":{\\"' * 40_000),
    "a nested file action": (COMMIT_1, f'{{"add":{{"path":"x","partitionValues":{nested(SIZE // 2)}}}}}'.encode()),
    "a nested metadata": (COMMIT_1, f'{{"metaData":{nested(SIZE // 2)}}}'.encode()),
    "objects within objects": (COMMIT_1, b'{"metaData":' * 80_000),
    "a nested schema": (COMMIT_1, long_schema(DEEP_SCHEMA)),
    "a protocol of many digits": (
        COMMIT_1,
        f'{{"protocol":{{"minReaderVersion":{"9" * SIZE}}}}}'.encode(),
    ),
    "a size of many digits": (COMMIT_1, f'{{"add":{{"path":"x","partitionValues":{{}},"size":{"9" * SIZE}}}}}'.encode()),
    "many lines before a broken one": (COMMIT_1, b"{}\n" * (SIZE // 3) + b"["),
    "many actions before a broken one": (COMMIT_1, distinct_keys("tags") + b"\n["),
    "many values": (COMMIT_1, f'{{"metaData":[{"0," * (SIZE // 2)}0]}}'.encode()),
}
READ = {
    "one tag of its own for each file": (COMMIT_1, distinct_keys("tags")),
    "a partition column of its own for each file": (COMMIT_1, distinct_keys("partitionValues")),
    "a file with many tags": (COMMIT_1, lines(add("x", tags={f"key-{number}": "v" for number in range(40_000)}))),
    "empty lines": (COMMIT_1, b"\n" * SIZE),
    "a commit info of many digits": (COMMIT_1, f'{{"commitInfo":{{"timestamp":{"9" * SIZE}}}}}'.encode()),
    "a nested unknown action": (COMMIT_1, f'{{"unknown":{nested(SIZE // 2)}}}'.encode()),
    "statistics of many digits": (COMMIT_1, lines(add("x", stats=f'{{"a":1,"numRecords":{"9" * SIZE}}}'))),
    "nested statistics": (COMMIT_1, lines(add("x", stats=f'{{"a":{nested(400_000)},"numRecords":1}}'))),
    "a part of very many": (f"{LOG}/00000000000000000001.checkpoint.0000000001.9999999999.parquet", b"1"),
    "a compacted file of very many": (f"{LOG}/00000000000000000000.09223372036854775807.compacted.json", b"1"),
    "a version that is no long": (f"{LOG}/99999999999999999999.json", b"{}"),
    "a nested hint": (f"{LOG}/_last_checkpoint", nested(SIZE // 2).encode()),
    "a hint of long paths": (
        f"{LOG}/_last_checkpoint",
        f'{{"version":0,"checksum":"x","y":{nested(150, ",".join(["1"] * 300_000))}}}'.encode(),
    ),
    "a hint of many digits": (f"{LOG}/_last_checkpoint", f'{{"version":{"9" * SIZE}}}'.encode()),
    "a checksum of many digits": (
        f"{LOG}/00000000000000000000.crc",
        f'{{"numMetadata":1,"numProtocol":1,"tableSizeBytes":{"9" * SIZE},"numFiles":1}}'.encode(),
    ),
}


@pytest.fixture
def planted(tmp_path):
    """A table with one data file, and the hostile file in its log."""

    def plant(path, content):
        (tmp_path / LOG).mkdir()
        (tmp_path / LOG / "00000000000000000000.json").write_bytes(lines(protocol(), metadata(), add("a")))
        (tmp_path / path).write_bytes(content)
        assert len(content) < 1_000_000
        return str(tmp_path)

    return plant


def checkpoint_of(action, value, rows):
    """A checkpoint that repeats an action, which Parquet stores once."""
    action_type = CHECKPOINT.field(action).type
    repeated = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([value]))
    name = next(iter(value))
    kind = action_type.field(name).type
    column = pa.StructArray.from_arrays([pc.struct_field(repeated.dictionary, name).cast(kind).take(repeated.indices)], [name])
    buffer = io.BytesIO()
    pq.write_table(pa.table({action: column}), buffer, compression="zstd", use_dictionary=True)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("action", "value"),
    [("add", {"path": "x"}), ("metaData", {"id": "x"}), ("txn", {"appId": "x"})],
    ids=str,
)
def test_a_checkpoint_of_a_million_equal_actions_costs_no_more_than_the_commits(action, value, planted):
    content = checkpoint_of(action, value, 5_000_000)
    root = planted(f"{LOG}/00000000000000000000.checkpoint.parquet", content)
    cost = cost_of(read_all, root)
    assert cost.error is None
    assert_bounded(cost)


def test_a_sidecar_is_not_read_as_often_as_it_is_named():
    made = HandmadeLog().create(add("a"))
    named = [{"sidecar": {"path": "s.parquet", "sizeInBytes": 1, "modificationTime": 0}}] * 2
    manifest = lines({"checkpointMetadata": {"version": 0}}, protocol(), metadata(), *named)
    made.store.write(f"{LOG}/00000000000000000000.checkpoint.0b0d0a3c-1c50-4b1b-9f7f-6d2f3c1d2e3f.json", manifest)
    made.checkpoint(0, add("x"), path=f"{LOG}/_sidecars/s.parquet")
    assert made.paths() == ["a"]  # from the commit, because the checkpoint is broken


def read_all(root):
    log = DeltaLog.for_table(root)
    snapshot = log.snapshot()
    assert "a" in snapshot.files(columns=["path", "num_records"])["path"].to_pylist()
    snapshot.files(where="id = 5")
    assert snapshot.schema.fields
    assert snapshot.timestamp > 0
    snapshot.verify_checksum()
    log.history()


@pytest.mark.parametrize("case", REFUSED)
def test_a_hostile_file_is_refused_at_a_bounded_cost(case, planted):
    path, content = REFUSED[case]
    cost = cost_of(read_all, planted(path, content))
    assert isinstance(cost.error, CorruptLogError | InvalidSchemaError), cost.error
    assert getattr(cost.error, "file", path) == path
    assert len(str(cost.error)) < 1_000
    assert_bounded(cost)


@pytest.mark.parametrize("case", READ)
def test_a_hostile_file_is_read_at_a_bounded_cost(case, planted):
    cost = cost_of(read_all, planted(*READ[case]))
    assert cost.error is None or isinstance(cost.error, DeltaError), cost.error
    assert_bounded(cost)
