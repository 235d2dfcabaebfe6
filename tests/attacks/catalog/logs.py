"""Commits that are expensive to read, or contain impossible values."""

import json

from tests.attacks.hostile_table import FIELDS, field, schema
from tests.core.builders import add, metadata, protocol

_ABSURD_DIGITS = "9" * 5_000


def _line(make):
    """A valid commit followed by one with a single odd line."""

    def attack(table):
        table.create().commit(make(table))

    return attack


def _info(**fields):
    return _line(lambda table: {"commitInfo": {"timestamp": 1, "operation": "WRITE", "operationMetrics": {}, **fields}})


def _property(name, value):
    return lambda table: table.create(**{name: value})


def _open_braces(table):
    return '{"add":{"path":"x","partitionValues":' + '{"a":"' + '\\"' * 40_000


def _repeated_key(table):
    return '{"add":{' + '"tags":{' * 8_000


def _distinct_tags(table):
    table.create()
    files = [table.data_file("part-1.parquet")["add"] | {"path": f"p{n}", "tags": {f"tag{n}": "x"}} for n in range(6_000)]
    table.commit(*({"add": file} for file in files))


def _distinct_partition_keys(table):
    table.create()
    table.commit(*(add(f"p{n}", partitionValues={f"k{n}": "x"}) for n in range(6_000)))


def _many_keys_of_one(table):
    return add("p", partitionValues={f"k{n}": None for n in range(30_000)}, tags={f"t{n}": "" for n in range(20_000)})


def _many_metadata(table):
    table.create().commit(*[metadata(schema(*FIELDS))] * 2_000)


def _nested_schema(table):
    kind = '{"type":"array","elementType":' * 20_000 + '"long"' + ',"containsNull":true}' * 20_000
    text = '{"type":"struct","fields":[{"name":"id","type":' + kind + ',"nullable":true,"metadata":{}}]}'
    table.commit(protocol(), metadata(text))


def _nested_structs(table):
    kind = "long"
    for _ in range(80):
        kind = {"type": "struct", "fields": [field("a", kind), field("b", "long")]}
    table.create(fields=[field("id", "long"), field("deep", kind)], actions=())


def _wide_schema(table):
    table.create(fields=[*FIELDS, *(field(f"c{n}", "long") for n in range(9_000))])


def _doubled_columns(table):
    table.create(fields=[*FIELDS, field("ID", "long")], actions=())


def _odd_physical_names(table):
    fields = [
        field("id", "long", **{"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "../../outside/x"}),
        field("s", **{"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "../../outside/x"}),
    ]
    table.create(fields=fields, reader=2, writer=5, actions=(), **{"delta.columnMapping.mode": "name"})


def _partition_of_dots(table):
    table.create(fields=[*FIELDS, field("../../outside/p")], partition_columns=["../../outside/p"], actions=())
    table.commit(table.data_file("part-1.parquet", partitionValues={"../../outside/p": "../../outside"}))


def _far_version(table):
    table.create().log_file(f"{10**20 - 1}.json", {"commitInfo": {}})


def _many_parts(table):
    table.create().log_file(f"{0:020d}.checkpoint.{1:010d}.{9_999_999_999:010d}.parquet", b"P")


def _many_names(table):
    table.create()
    for number in range(3_000):
        table.log_file(f"{number:020d}.{number:020d}.tmp", b"")


def _lone_compaction(table):
    table.create().commit(table.data_file("part-1.parquet"))
    table.log_file(f"{0:020d}.{10**19:020d}.compacted.json", {"commitInfo": {}})


def _absurd_time(table):
    table.create(
        **{
            "delta.enableInCommitTimestamps": "true",
            "delta.inCommitTimestampEnablementVersion": "9" * 30,
            "delta.inCommitTimestampEnablementTimestamp": "-" + "9" * 30,
        },
        writer=7,
        features=None,
        actions=(),
    )


def _many_lines(table):
    table.create().commit(*['{"txn":{"appId":"%d","version":%d}}' % (n, n) for n in range(20_000)])


ATTACKS = {
    "log: quotes without an end": _line(_open_braces),
    "log: a key again and again": _line(_repeated_key),
    "log: a tag of its own in each file": _distinct_tags,
    "log: a partition column of its own in each file": _distinct_partition_keys,
    "log: many keys in one file's maps": _line(_many_keys_of_one),
    "log: brackets 100,000 deep": _line(lambda table: '{"add":' + "[" * 100_000 + "]" * 100_000 + "}"),
    "log: objects 100,000 deep": _line(lambda table: '{"a":' * 100_000 + "1" + "}" * 100_000),
    "log: commit info 100,000 deep": _line(lambda table: '{"commitInfo":{"a":' + "[" * 100_000 + "]" * 100_000 + "}}"),
    "log: number of 5,000 digits as a size": _line(
        lambda table: '{"add":{"path":"x","partitionValues":{},"size":%s}}' % _ABSURD_DIGITS
    ),
    "log: number of 500,000 digits": _line(lambda table: '{"commitInfo":{"timestamp":%s}}' % ("9" * 500_000)),
    "log: null": _line(lambda table: "null"),
    "log: an array": _line(lambda table: "[]"),
    "log: bytes that are no text": _line(lambda table: b'{"add":{"path":"\xff\xfe"}}'),
    "log: NUL bytes": _line(lambda table: b"\0" * 900_000),
    "log: lone surrogate": _line(lambda table: '{"commitInfo":{"operation":"\\ud800","userMetadata":"\\udfff"}}'),
    "log: lone surrogate in a path": _line(lambda table: '{"add":{"path":"\\ud800","partitionValues":{},"size":1}}'),
    "log: one key twice": _line(lambda table: '{"add":{"path":"x","path":"y","size":1,"size":2}}'),
    "log: two values in a line": _line(lambda table: '{"commitInfo":{}}{"commitInfo":{}}'),
    "log: negative size": _line(lambda table: add("part-0.parquet", size=-5)),
    "log: absurd size": _line(lambda table: add("part-0.parquet", size=2**63 - 1)),
    "log: statistics of another kind": _line(
        lambda table: add("part-0.parquet", stats='{"numRecords":"many","minValues":[1]}')
    ),
    "log: deep statistics": _line(lambda table: add("part-0.parquet", stats="[" * 100_000)),
    "log: statistics of 5,000 digits": _line(
        lambda table: add("part-0.parquet", stats='{"numRecords":%s,"minValues":{"id":%s}}' % (_ABSURD_DIGITS, _ABSURD_DIGITS))
    ),
    "log: negative count of rows": _line(lambda table: add("part-0.parquet", stats='{"numRecords":-1}')),
    "log: many metadata": _many_metadata,
    "log: absurd protocol": _line(lambda table: protocol(2**31 - 1, 2**31 - 1)),
    "log: negative protocol": _line(lambda table: protocol(-1, -1)),
    "log: 20,000 transactions": _many_lines,
    "log: far version": _far_version,
    "log: 10^10 parts": _many_parts,
    "log: 3,000 stray names": _many_names,
    "log: compaction of versions that are not there": _lone_compaction,
    "log: absurd times": _absurd_time,
    "schema: arrays 20,000 deep": _nested_schema,
    "schema: structs 80 deep": _nested_structs,
    "schema: 9,000 columns": _wide_schema,
    "schema: a name twice": _doubled_columns,
    "schema: physical names that are paths": _odd_physical_names,
    "schema: a partition column that is a path": _partition_of_dots,
    "schema: not JSON": lambda table: table.commit(protocol(), metadata("not json")),
    "schema: null": lambda table: table.commit(protocol(), metadata(json.dumps(None))),
    "property: interval without an end": _property("delta.deletedFileRetentionDuration", "interval " + "1 day " * 100_000),
    "property: interval of 5,000 digits": _property("delta.logRetentionDuration", f"interval {_ABSURD_DIGITS} days"),
    "property: checkpoint every 0 commits": _property("delta.checkpointInterval", "0"),
    "property: checkpoint every -1 commits": _property("delta.checkpointInterval", "-1"),
    "property: indexed columns beyond all": _property("delta.dataSkippingNumIndexedCols", _ABSURD_DIGITS),
    "property: statistics columns without an end": _property("delta.dataSkippingStatsColumns", "`" * 50_000),
    "property: file size of 5,000 digits": _property("delta.targetFileSize", _ABSURD_DIGITS),
    "info: metric of 5,000 digits": _info(operationMetrics={"numOutputRows": _ABSURD_DIGITS}),
    "info: metrics that are a list": _info(operationMetrics=[1]),
    "info: time beyond the calendar": _info(timestamp=10**17),
    "info: time that is a text": _info(timestamp="yesterday", inCommitTimestamp="now"),
    "info: control characters": _info(
        operation="\x1b]0;owned\x07\x1b[2J", engineInfo="\x9b31m\u202e", userMetadata="a\rb\x00c", userName="\x1b[31m"
    ),
    "info: markup": _info(operation="[link=http://x]a[/link][/bold]", engineInfo="<script>alert(1)</script>"),
    "info: map index of 5,000 digits": _line(
        lambda table: (
            '{"commitInfo":{"timestamp":1,"operation":"WRITE","airflowDelta":{"dag_id":"d","task_id":"t",'
            '"run_id":"r","map_index":%s},"job":{"jobId":"d"}}}' % _ABSURD_DIGITS
        )
    ),
}
