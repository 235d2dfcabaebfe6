"""Paths in the log that lead outside the table."""

import base64
import json

from tests.attacks.hostile_table import FIELDS, field
from tests.core.builders import add, remove

_DELETION_VECTORS = {"reader": 3, "writer": 7, "features": ["deletionVectors"], "delta.enableDeletionVectors": "true"}


def _added(spelling):
    def attack(table):
        path = spelling.format(outside=table.outside, sink=table.sink)
        table.create().commit(table.add_secret(path))

    return attack


def _linked_file(table):
    table.create()
    (table.root / "part-1.parquet").symlink_to(table.outside / "secret.parquet")
    table.commit(table.add_secret("part-1.parquet"))


def _linked_directory(table):
    table.create()
    (table.root / "day=1").symlink_to(table.outside)
    table.commit(table.add_secret("day=1/secret.parquet"))


def _linked(name):
    """A directory that writers would create already exists as a symbolic link to the neighbor."""

    def attack(table):
        table.create(**{"delta.enableChangeDataFeed": "true"}, writer=4)
        target = table.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(table.outside)

    return attack


def _linked_partition(table):
    table.create(fields=(*FIELDS, field("p")), partition_columns=["p"], actions=())
    table.commit(table.data_file("p=1/part-0.parquet", partitionValues={"p": "1"}))
    (table.root / "p=2").symlink_to(table.outside)


def _linked_hint(table):
    table.create()
    (table.log / "_last_checkpoint").symlink_to(table.outside / "secret.txt")


def _removed(spelling):
    def attack(table):
        path = spelling.format(outside=table.outside)
        table.create().commit(add(path, size=table.secret_size())).commit(remove(path))

    return attack


def _changed(spelling):
    def attack(table):
        table.create(**{"delta.enableChangeDataFeed": "true"}, writer=4)
        path = spelling.format(outside=table.outside)
        table.commit({"cdc": {"path": path, "partitionValues": {}, "size": table.secret_size(), "dataChange": False}})

    return attack


def _deletion_vector(kind, text, **more):
    def attack(table):
        table.create(**_DELETION_VECTORS)
        deletion_vector = {"storageType": kind, "pathOrInlineDv": text.format(outside=table.outside), "sizeInBytes": 40}
        deletion_vector |= {"offset": 1, "cardinality": 1, **more}
        table.commit(remove("part-0.parquet"), add("part-0.parquet", stats='{"numRecords":3}', deletionVector=deletion_vector))

    return attack


def _sidecar(path):
    def attack(table):
        table.create(reader=3, writer=7, features=["v2Checkpoint"], actions=(), **{"delta.checkpointPolicy": "v2"})
        lines = (table.log / f"{0:020d}.json").read_bytes().splitlines()
        named = path.format(outside=table.outside)
        sidecar = {"sidecar": {"path": named, "sizeInBytes": table.secret_size(), "modificationTime": 0}}
        name = f"{0:020d}.checkpoint.{table.uuid_name()}.json"
        table.log_file(
            name, b'{"checkpointMetadata":{"version":0}}\n' + b"\n".join(lines) + b"\n" + json.dumps(sidecar).encode()
        )
        table.commit(table.data_file("part-1.parquet"))

    return attack


def _hinted_checkpoint(table):
    table.create()
    path = f"../../outside/{0:020d}.checkpoint.{table.uuid_name()}.parquet"
    table.log_file("_last_checkpoint", {"version": 0, "size": 1, "v2Checkpoint": {"path": path, "sizeInBytes": 1}})


_Z85_UUID = base64.b85encode(bytes(16)).decode()

ATTACKS = {
    **{
        f"add: {title}": _added(spelling)
        for title, spelling in {
            "absolute": "{outside}/secret.parquet",
            "two slashes": "/{outside}/secret.parquet",
            "three slashes": "//{outside}/secret.parquet",
            "file:": "file:{outside}/secret.parquet",
            "file://": "file://{outside}/secret.parquet",
            "FILE:///": "FILE://{outside}/secret.parquet",
            "file://localhost": "file://localhost{outside}/secret.parquet",
            "dots": "../outside/secret.parquet",
            "encoded dots": "%2e%2e/outside/secret.parquet",
            "encoded slashes": "..%2Foutside%2Fsecret.parquet",
            "dots further in": "a/b/../../../outside/secret.parquet",
            "dots behind a dot": "./../outside/secret.parquet",
            "encoded twice": "%252e%252e/outside/secret.parquet",
            "backslashes": "..\\outside\\secret.parquet",
            "the root spelled out, then dots": "{outside}/../table/../outside/secret.parquet",
            "encoded absolute": "%2F{outside}/secret.parquet",
            "http": "http://{sink}/secret.parquet",
            "another bucket": "s3://another/secret.parquet?endpoint_override={sink}&scheme=http&access_key=a&secret_key=b",
            "hdfs": "hdfs://{sink}/secret.parquet",
            "jar": "jar:file:{outside}/secret.parquet!/x",
            "empty": "",
            "the root itself": ".",
            "NUL": "part\x00-1.parquet",
            "encoded NUL": "part%00-1.parquet",
            "line break": "part\n-1.parquet",
            "bad percent": "part-%zz.parquet",
            "very long": "x" * 300_000,
            "the log": "_delta_log/00000000000000000000.json",
        }.items()
    },
    "add: link to a file": _linked_file,
    "add: below a linked directory": _linked_directory,
    "link in place of the change data": _linked("_change_data"),
    "link in place of the manifests": _linked("_symlink_format_manifest"),
    "link in place of the pins": _linked("_airflow_delta"),
    "link in place of the sidecars": _linked("_delta_log/_sidecars"),
    "link in place of a partition": _linked_partition,
    "link in place of the hint": _linked_hint,
    "remove: absolute": _removed("{outside}/secret.parquet"),
    "remove: dots": _removed("../outside/secret.parquet"),
    "remove: encoded dots": _removed("%2e%2e/outside/secret.txt"),
    "change file: absolute": _changed("{outside}/secret.parquet"),
    "change file: dots": _changed("_change_data/../../outside/secret.parquet"),
    "deletion vector: absolute": _deletion_vector("p", "{outside}/secret.txt"),
    "deletion vector: file:": _deletion_vector("p", "file://{outside}/secret.txt"),
    "deletion vector: prefix of dots": _deletion_vector("u", f"../outside/{_Z85_UUID}"),
    "deletion vector: relative dots": _deletion_vector("r", "../outside/secret.txt"),
    "deletion vector: unknown kind": _deletion_vector("?", "{outside}/secret.txt"),
    "deletion vector: inline, absurd counts": _deletion_vector("i", "0" * 40, cardinality=2**62, sizeInBytes=2**31 - 1),
    "sidecar: absolute": _sidecar("{outside}/secret.parquet"),
    "sidecar: dots": _sidecar("../../../outside/secret.parquet"),
    "sidecar: encoded dots": _sidecar("..%2f..%2f..%2foutside%2fsecret.parquet"),
    "hint: a checkpoint outside": _hinted_checkpoint,
}
